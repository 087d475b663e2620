"""Closed lists of the words for relatives, offices, professions, pets and possessions, all folded."""

from __future__ import annotations

from orion_recall.graph.relation_words import role_name


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What somebody is for life: "was my grandmother" states it too.
RELATIVES = _words(
    """sister brother sibling mother mom mum mam mummy mommy mama mamma maman father dad daddy papa son daughter
    child kid baby parent twin stepmother stepfather stepsister stepbrother half-sister half-brother cousin uncle
    aunt auntie aunty niece nephew grandmother grandma granny gran nana nan grandfather grandpa granddad grandad
    grandson granddaughter grandchild grandparent sister-in-law brother-in-law mother-in-law father-in-law
    son-in-law daughter-in-law in-law godmother godfather godson goddaughter godchild great-aunt great-uncle
    great-grandmother great-grandfather boy girl"""
)
# What ends: "was my boss" is over.
_PARTNERS = _words("wife husband hubby partner spouse girlfriend boyfriend fiancé fiancée fiance fiancee ex")
_OFFICES = _words(
    """boss chief manager supervisor director ceo cto cfo coo cmo cio cpo chairman chairwoman chair president
    vice-president treasurer secretary deputy lead leader team-lead teamlead head captain principal headmaster
    headteacher dean conductor producer editor publisher caretaker janitor superintendent receptionist owner
    founder co-founder organiser organizer spokesman spokeswoman spokesperson foreman supplier sponsor mayor
    editor-in-chief"""
)
_PROFESSIONS = _words(
    """accountant bookkeeper lawyer solicitor attorney notary architect builder plumber electrician carpenter
    painter gardener cleaner decorator mechanic hairdresser barber tailor dressmaker butcher baker grocer
    florist chef cook doctor gp dentist therapist physiotherapist physio psychologist psychiatrist midwife nurse
    surgeon paediatrician pediatrician optician dermatologist cardiologist orthodontist pharmacist chiropractor
    vet osteopath teacher tutor professor lecturer instructor coach trainer mentor mentee student pupil intern
    apprentice trainee advisor adviser consultant counsellor counselor banker broker insurer agent realtor
    translator interpreter designer developer engineer programmer admin administrator analyst recruiter
    photographer illustrator proofreader stylist driver courier postman goalkeeper goalie referee drummer singer
    guitarist bassist pianist organist babysitter nanny childminder sitter au-pair carer caregiver landlord
    landlady tenant lodger concierge priest pastor rabbi imam contractor client customer contact"""
)
_COMPANIONS = _words(
    """friend buddy pal colleague coworker co-worker workmate teammate team-mate classmate roommate flatmate
    housemate neighbor neighbour assistant helper godparent bandmate penfriend penpal partner co-author co-host
    co-founder successor replacement predecessor bridesmaid witness guest host"""
)
PERSONS = RELATIVES | _PARTNERS | _OFFICES | _PROFESSIONS | _COMPANIONS
# "The boss", said without whose, is the speaker's: there is one.
OFFICES = (
    _OFFICES
    - _words(
        "owner founder co-founder producer editor publisher sponsor supplier lead leader chair secretary deputy"
    )
) | _words("accountant caretaker babysitter landlord landlady cleaner")
# Who is noted by the role alone: "Deputy: Kofi" is the writer's. "Director: Ang Lee" may be of a film.
NOTED_ROLES = _PARTNERS | _words(
    """boss manager supervisor deputy lead team-lead secretary treasurer caretaker assistant successor replacement
    landlord landlady tenant accountant bookkeeper lawyer solicitor notary builder plumber electrician carpenter
    gardener cleaner mechanic hairdresser doctor gp dentist therapist physiotherapist physio midwife optician vet
    tutor trainer mentor trainee apprentice intern advisor adviser babysitter nanny childminder carer contact
    friend colleague neighbour neighbor flatmate housemate roommate"""
)
PETS = _words(
    """dog cat puppy kitten horse pony parrot budgie rabbit bunny hamster tortoise goldfish pet guinea-pig hen goat
    donkey lizard snake ferret canary"""
)
# What is somebody's, and the relation from whoever it is to its name.
POSSESSIONS = dict.fromkeys(
    _words(
        """bakery shop bookshop store café cafe bar pub restaurant bistro brewery winery farm hotel guesthouse
        gallery startup start-up vineyard pharmacy workshop kiosk boutique salon"""
    ),
    "owns",
) | dict.fromkeys(_words("company employer firm workplace"), "works at") | {
    "school": "studies at", "university": "studies at", "hometown": "is from", "birthplace": "born in",
}  # fmt: skip
# The owner before "of": "Petrel boat of Ana".
OWN_THINGS = _words("boat yacht car van bike bicycle band choir orchestra blog podcast newsletter cottage ship")

# "Our team lead" is a team lead; before another head the words before it are left out ("piano teacher").
TWO_WORD_ROLES = frozenset(
    tuple(role.strip().split())
    for role in """team lead|twin brother|twin sister|foster mother|foster father|project manager|product manager
    |product owner|tech lead|head chef|sound engineer|art director|managing director|head teacher|general manager
    |line manager|office manager|account manager|head nurse|personal trainer|executive producer|executive director
    |choir director|flat mate|room mate|house mate|team mate|class mate|desk mate|scrum master|vice president
    |sales manager|guinea pig""".split("|")
)
# A line manager is a manager.
_PLAIN_TWO = {
    "line manager": "manager", "twin brother": "brother", "twin sister": "sister", "foster mother": "mother",
    "foster father": "father", "flat mate": "flatmate", "room mate": "flatmate", "house mate": "flatmate",
    "team mate": "teammate", "class mate": "classmate", "desk mate": "colleague",
}  # fmt: skip

ADJECTIVES = _words(
    """older younger elder eldest oldest youngest little big best good great close closest dear late twin only own
    beloved favourite favorite long-time longtime lifelong childhood half new old current main acting interim
    regular second lovely brilliant wonderful amazing trusty fantastic adoptive foster step kid second third
    fellow direct present super romantic domestic civil dearest brand-new latest newest next-door tiny
    sweet poor grumpy kind other"""
)
# No longer, or not yet.
PAST = _words("former ex previous erstwhile then-boyfriend then-girlfriend then ex-")
PAST_OF_OFFICES = _words("old first last")
NOT_YET = _words("future potential possible next would-be wannabe prospective imaginary fake virtual")
NATIONALITIES = _words(
    """african american arab argentine argentinian australian austrian belgian bolivian brazilian british bulgarian
    canadian catalan catholic chilean chinese colombian croatian cuban czech danish dutch egyptian english estonian
    ethiopian european finnish flemish french german ghanaian greek hungarian icelandic indian indonesian iranian
    iraqi irish israeli italian jamaican japanese jewish kenyan korean latin latvian lebanese lithuanian
    malaysian mexican moroccan muslim nepalese nigerian norwegian pakistani peruvian polish portuguese protestant
    romanian russian scottish serbian slovak slovenian spanish swedish swiss syrian taiwanese thai tunisian turkish
    ukrainian venezuelan vietnamese welsh buddhist hindu vegan vegetarian christian"""
)
# Two people are it together: "Ana and Bo are cousins".
TOGETHER = {
    "married": "married to", "engaged": "engaged to", "divorced": "divorced from", "siblings": "sibling of",
    "sisters": "sister of", "brothers": "brother of", "cousins": "cousin of", "twins": "twin of",
    "friends": "friend of", "colleagues": "colleague of", "coworkers": "colleague of",
    "neighbours": "neighbour of", "neighbors": "neighbour of", "flatmates": "flatmate of",
    "roommates": "flatmate of", "housemates": "flatmate of",
    "partners": "partner of", "teammates": "teammate of", "classmates": "classmate of", "dating": "dating",
}  # fmt: skip
HONORIFICS = _words("mr mrs ms miss dr prof professor monsieur madame herr frau señor señora sir")

_SPECIAL = {"boy": "son", "girl": "daughter", "step": "step", "kids": "child", "children": "child", "wives": "wife",
            "babies": "child", "puppies": "puppy", "in-laws": "in-law", "parents-in-law": "in-law"}  # fmt: skip
_ALL = PERSONS | PETS | frozenset(POSSESSIONS) | OWN_THINGS


def role_of(word: str) -> tuple[str, bool] | None:
    """The role or thing of a folded word, by its one name, and whether it is several; None for another word."""
    if word in ("children", "babies", "wives", "puppies", "parents-in-law"):
        return _SPECIAL[word], True
    if word in _ALL:
        return _SPECIAL.get(word, role_name(word)), False
    single = word.removesuffix("s")
    if single != word and single in _ALL:
        return _SPECIAL.get(word, _SPECIAL.get(single, role_name(single))), True
    return None


def two_word_role(first: str, second: str) -> str | None:
    """`team lead` for its two words; None when they are no role of two words."""
    return _PLAIN_TWO.get(f"{first} {second}", f"{first} {second}") if (first, second) in TWO_WORD_ROLES else None
