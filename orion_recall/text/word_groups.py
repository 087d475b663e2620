"""Word groups: words that tell the same attribute, such as "birthday", "born" and "turned".

Whether a memory speaks of what a question asks for is more than the question's own words. English, by hand, of
everyday attributes, with the words for family that people keep from other languages: it is no thesaurus, and
nothing is searched for by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_GROUPS = """
wife husband spouse partner married marry marries marrying marriage wedding wed engaged fiance fiancee
mother mum mom mama mummy mommy mamá mamma maman mutti daughter son
mom mother mum mama mummy mommy mamá mamma maman mutti daughter son
mum mother mom mama mummy mommy mamá mamma maman mutti daughter son
father dad papa daddy papá babbo vati daughter son
dad father papa daddy papá babbo vati daughter son
parent parents mother father mum mom dad mama maman papa
child children kid kids son daughter baby boy girl twins
sister-in-law brother sister wife husband
brother-in-law brother sister wife husband
mother-in-law wife husband mother
father-in-law wife husband father
daughter daughters mother father mum mom dad child
son sons mother father mum mom dad child
brother brothers sister sisters sibling siblings twin
family mother father mum mom dad brother sister son daughter wife husband uncle aunt cousin
grandmother grandma granny nana oma nonna abuela mamie babushka
grandma grandmother granny nana oma nonna abuela mamie babushka
grandfather grandpa granddad opa nonno abuelo papi
grandpa grandfather granddad opa nonno abuelo papi
boss manager supervisor reports report head lead leads chief
owner owns own owned belongs belong possess
colleague coworker teammate works
employer company job works work employed
job work works working worked employed employer career position role profession office company occupation
live lives lived living address flat apartment house home street moved move moving resides
address street road avenue lane court terrace crescent square flat lives live postcode
rent rents rented lease landlord
birthday born birth turned turns turning birthdate
age old years born turned turns turning birthday
cost costs price prices pay pays paid paying spend spent charge charges charged fee fees euro euros dollar dollars
cost pound pounds budget expensive cheap bought
price cost costs euro euros dollar dollars pound pounds paid charge
pay pays paid payment payments salary wage wages fee fees earn earns earned rate money
money budget euro euros dollar dollars pound pounds cash spend spent
salary pay pays paid earn earns wage wages income
owe owes owed debt due pay paid
buy buys bought purchase purchased ordered order got
sell sells sold sale
car drive drives drove driving vehicle van truck
bike bicycle cycle cycling bikes
phone call calls called number mobile ring rang
email mail address inbox
password passcode pin code login credentials key
login password credentials account sign
doctor physician gp clinic surgery appointment
medicine medication pill pills tablet tablets drug drugs dose prescription
ill sick illness disease flu cold fever
allergic allergy allergies intolerant
eat eats ate eaten eating food diet dish meal vegetarian vegan meat
drink drinks drank drinking tea coffee wine beer juice water alcohol
dinner supper meal restaurant ate
lunch meal restaurant ate
breakfast meal ate
cook cooks cooked cooking recipe bake baked baking
pet pets dog cat hamster rabbit parrot
dog puppy dogs
cat kitten cats
school class teacher pupil grade
teacher teach teaches taught tutor coach instructor lesson lessons learn learns learning
tutor teacher teaches taught lesson lessons
taught teach teaches teacher tutor coach lesson lessons learn learns learning
coach coaches coached trainer trains trained training
trainer coach coaches trains trained training
university college degree study studies studied studying major
study studies studied studying learn learning course degree
language speak speaks speaking
travel travels travelled traveling trip journey flight fly flew flying visit visited holiday vacation train
trip travel journey flight holiday vacation tour
holiday vacation trip
fly flies flew flying flight plane airport
hotel hostel stay stayed booked inn room
visit visits visited visiting come comes coming came
meet meets met meeting appointment interview
appointment meeting slot visit scheduled booked
deadline due submit deliver delivered hand
concert gig show performance sing sings
rehearsal rehearse rehearses rehearsing practice
film movie cinema series watched
book books novel read reading
song songs music album sing track
sport sports game match football soccer tennis basketball
hobby hobbies enjoy enjoys pastime
team club side
present gift gifts gave given
insurance insured insure policy cover covers covered
bank account loan mortgage savings
contract agreement signed sign deal
program software app tool editor
tool software app program
computer laptop pc machine
picture pictures photo photos image images
size sizes big large small measures
colour color colours colors red blue green yellow black white
shoe shoes boots trainers sneakers
clothes clothing coat coats jacket shirt jumper dress
weight weigh weighs kilos kg pounds
height tall metres feet cm
nickname called call
name called named call
religion church mosque temple faith
died death dead passed funeral
start starts started begin began begun beginning since
end ends ended finish finished finishes over expire expires runs
expire expires expiry valid runs ends
hour time clock
keep keeps kept store stored stores put
repair repairs repaired repairing fix fixed fixing broken mend
move moved moves moving postponed rescheduled shifted pushed
cancel cancelled canceled called off
"""


def _read(lines: str) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in lines.strip().splitlines():
        first, *others = line.split()
        found.setdefault(first, set()).update(others)
    return {word: frozenset(others - {word}) for word, others in found.items()}


WORD_GROUPS: Mapping[str, frozenset[str]] = _read(_GROUPS)
"""By a word of a question the words of memories that tell the same."""

_PHONE = re.compile(r"(?<![\w.])(?:(?:\+|0)\d[\d /()-]{6,18}\d|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4})(?!\w)")
_PAID_BY_TIME = re.compile(
    r"(?<![\d.,])\d[\d.,]*k?(?: ?[^\W\d]{1,8}| ?[€$£¥])? ?(?:\ban?|\bper|\beach|/) ?"
    r"(?:hours?|h|days?|weeks?|months?|years?)\b"
)
_IS_SOMEWHERE = re.compile(
    r"(?:\b(?:is|are|am|moved|moves|staying)|['’](?:s|m|re))\s+(?:now\s+|back\s+)?(?:in|to)\s+\w"
)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]+@\w[\w-]*\.\w")
VALUES: Mapping[str, re.Pattern[str]] = {
    "phone": _PHONE, "telephone": _PHONE, "number": _PHONE, "mobile": _PHONE, "email": _EMAIL, "mail": _EMAIL,
    "live": _IS_SOMEWHERE, "lives": _IS_SOMEWHERE,
    "wage": _PAID_BY_TIME, "wages": _PAID_BY_TIME, "salary": _PAID_BY_TIME,
}  # fmt: skip
"""By a word of a question what its answer looks like, where the word is not said: "Ask Leila, 0113 496 0188"."""
