"""Closed lists of English words for light extraction, all folded."""

from __future__ import annotations

from orion_recall.text.normal import STOP_WORDS


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


CALENDAR = _words(
    """monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays fridays
    saturdays sundays mon tue tues wed thu thur thurs fri january february march april may june july august
    september october november december jan feb mar apr jun jul aug sep sept oct nov dec am pm bc ad bce ce
    spring summer autumn fall winter"""
)
# Months that people are called, and what stands before them where they are months.
MONTH_NAMES = _words("april may june august")
BEFORE_MONTHS = _words(
    """in on since by last next this until till from of for every late early mid before after during to and or
    between the st nd rd th our"""
)
FIRST_PERSON = _words("i i'm i've we we're we've")
FIRST_PERSON_OBJECT = _words("me us")
FIRST_PERSON_OWNER = _words("my our")

# Written with a capital at the start of a sentence (or always), and hardly ever a name.
COMMON_STARTS = _words(
    """absolutely according actually additionally ago agreed ah all almost along already alright although always
    amazing american among and another anyone anything anyway apparently are around aside awesome aww back based
    basically beautiful besides best better bravo bye can can't cheers come congrats congratulations cool could
    currently dear definitely despite did didn't do does doesn't don't due during earlier early either else
    enjoy especially even eventually ever every everybody everyone everything exactly excellent excited exciting
    fair fantastic feel feels finally fine first follow following for former fortunately four from fun further
    generally get getting give given glad go going good goodbye gosh got gotcha great guess ha haha half happy
    hardly have haven't having hello here here's hey hi hmm hopefully hope how however huge huh i'd i'll imagine
    important impressive including incredible indeed initially inspired instead interesting is isn't it'll it's
    just keep keeping know last lastly lately later latest least let let's life like likewise little lol look
    looking looks lots love loved lovely lucky many maybe me meanwhile might mine mmm more moreover most mostly
    mr mrs ms much my nah near nearly need never nevertheless new next nice nine no nobody none nope nothing now
    obviously of often oh ok okay omg on once one only oops or other others otherwise ouch our overall part
    people perfect perhaps personally please plus pretty previously probably proud quite rather read ready
    really recently remember right same saw say says second see seeing seems seriously seven several shall she's
    should show similarly simply since six so some somebody someday someone something sometimes soon sorry sound
    sounds speaking still stay such super sure surely take taking talk tell ten than thank thankfully thanks
    that that'll that's then there there's therefore these they'll they're they've thing things think thinking
    third this those though thought three through throughout thus time times to today together tomorrow tonight
    too totally true truly try turns two ugh um unfortunately unless unlike until upon usually very wait want
    was wasn't watch way we'd we'll we're we've welcome well were what what's whatever when whenever where
    whereas wherever whether which whichever while who who's whoever why will wish with within without woah
    woohoo wonderful won't wow woo would yay yeah year years yep yes yesterday yet you you'd you'll you're
    you've yup about above across add agree amongst annual anytime apart appreciate ask average bad be become
    been begun behind below believe bet between big suppose imagine pretend neither born both bring build built
    busy buy by call care change chat check cherish choose close contrary count crazy day days decades drink
    easy eat eight elsewhere end epic events families few fifth fill find fix food fool forget forty found free
    friends full fun funny furthermore game games gonna gotta grab gross had half hang hard has have he health
    heard help hence her high his hold home huge hundreds i'm ice if in individuals inside into it its join jump
    kids kind land large late learn leave less listen live local location long lost low made main major make
    makes man mean means meet members mental met miss moment money mom mum dad more move music must nature news
    nonetheless normal note nuts off old on oof ooh open opposite order orders out over own owing phew photos
    play prior push put rain recent reminds run sad same school season seek sell send set she shop short show
    sick sit small social spend stand start stick stop strange strong stuff sunny swim team teach text that
    there they thousands three till took top tough track travel trust twelve twenty under up us use used using
    various via visit wake walk wanna water wear week weeks went whoa win winter winters woman women work write
    wrong"""
)
# At the start of a sentence no name when they stand alone there; "Real Madrid" and "Dead Sea" are names.
COMMON_ALONE = _words(
    """active additional afternoon agricultural anger animals anxiety anyways art artists assignments attacks author
    aw awww basketball beach bigger birds bold books brief bright bring broken c'mon calm capital career
    cats celebrate challenges cheap children choir class classic clean clear clever clouds coffee cold collaboration
    comfort common communication compassion confidence confident conversations cook cooking correct courage cozy
    create creative creativity cultural curious cute dance darn dead deep details difficult dinner dogs domestic
    doubt dreams drive driving eager education embrace emails emotions empathy empty energy entire epidemics
    everywhere exact exams exercise expensive experience extra families family fans fantasy fast favorite favourite
    felt fewer final fingers flat focus former fresh friendship fruit gentle gifts gives goals gorgeous
    gosh gratitude groups growth guidance guilty guys habits hah heads healthy heart heavy helps hiccups high
    historic historical holidays homework honest honesty hot hours hungry hurry ideas incredible individual
    inhabitants initial innovation insane inspiration interest international jazz journaling kindness kudos
    laughter leaders lemme lesson lessons light limited locations lots luck lunch main marriage massive meal meals
    medieval memories mentors messages milk mistakes mixed modern money-wise morning mother mountains moves
    mutual named native natural naturally nearby nerves night ninety noon notice nowadays numbers obstacles
    odd opportunities ordinary organization original outside oversized owned pain parenthood parents parts
    passion peace perseverance persistent personal pets photography physical pics plain plants pleasant
    plenty poetry politics polite poor popular positive possible pottery practice precipitation present private
    productive progress promise prompt public quality quick quiet random rare raw real real-life recently
    recovery regional relationships relax reminder remote resilience resources respect responsible rest rich
    romantic rough routine rude safe safety scary school science seasonal self-care separate serious setbacks
    sharp shipping significant silly simple slow smart smooth snow snowfall soft solid someone's
    special speak specific spicy sports stars startin steady stories stress strength strict struggles stuck students
    stupid success successful sudden sunset sunsets support supporters surgery surprise sweet tackle takes
    tasks tasty teachers teamwork technology temperatures terms terrible therapy thick thoughts thousand thrilled
    tight tiny tired tomorrow's tons tonight's tornadoes tragic treasure tried trips tropical trouble twice
    typical uh unconditional understand unemployment unexpected unique unlimited updates urgent useful
    usual vacation valid veggies video videos visual vital vivid volunteering volunteers walking warm
    weather weddings weekend weekends weekly weird wide wild winning wise woo-hoo words workouts worried worse worst
    worth written y'all yea yearly yellow yoga yoohoo young yum yummy"""
)
# A single word at the start of a sentence with such an end is hardly ever a name, but for these names.
COMMON_ENDS = ("ing", "ly", "ed", "ness", "able", "ful", "ous")
NAMES_THAT_LOOK_COMMON = _words(
    """beverly kimberly alfred wilfred winifred mildred mohammed muhammed mohamed muhammad sterling irving fleming
    manning browning golding beijing nanjing chongqing harding reading wyoming clement constable nations google"""
)
# Capitals that are titles or shouts rather than names; words to match relations by.
TITLE_WORDS = _words("gp ceo cto cfo coo cmo vp hr pm lol omg ok diy fyi btw asap tv mr mrs ms dr prof")
# Before a name, which may be a common word then: Mrs. Ten Have. After the first three hardly anything else stands.
TITLES_BEFORE_NAMES = _words("mr. mrs. ms.")
TITLES = TITLES_BEFORE_NAMES | _words("dr. prof. mr mrs ms dr prof")

# Never the edge of a name, wherever they stand.
NEVER_NAMES = (
    STOP_WORDS | CALENDAR | FIRST_PERSON | TITLE_WORDS | _words("hey hi hello thanks wow yes yeah oh todo fyi")
)
# Part of a name, but no name alone.
NEVER_ALONE = _words(
    """inc ltd llc corp co plc gmbh jr sr fm president minister king queen prince princess doctor professor
    captain mayor governor senator university college museum church street avenue river city county state"""
)

# Lower-case words inside names: Ludwig van Beethoven, Rio de Janeiro.
PARTICLES = _words("van von de der den del della di da do dos das du la le las los el al bin ibn ter ten zu")
# After these "of" belongs to the name: University of Oslo, Lord of the Rings.
OF_HEADS = _words(
    """university bank house department ministry minister college institute museum church city kingdom republic
    state states lord game league school faculty board academy order isle isles bay gulf cape battle siege
    treaty duke duchess earl count prince princess queen king council court hall bureau center centre society
    association library journal tower statue temple valley port church cathedral diocese archdiocese county
    district province duchy empire house art hall heart strait sea lake mount universidad federation union
    army bishop archbishop knights lords legend legends lady"""
)

# Who is meant has to be found; of "they" nobody knows how many they are.
SHE = _words("she she's her")
HE = _words("he he's him his")
THIRD_PERSON = _words("he he's she she's")
THIRD_PERSON_OBJECT = _words("him her")
THIRD_PERSON_OWNER = _words("his her")
KIN_SHE = _words(
    """sister mother mom mum daughter wife girlfriend fiancée aunt niece grandmother grandma granny granddaughter
    stepmother stepsister sister-in-law mother-in-law godmother"""
)
KIN_HE = _words(
    """brother father dad son husband boyfriend fiancé uncle nephew grandfather grandpa grandson stepfather
    stepbrother brother-in-law father-in-law godfather"""
)
# A name after one of these is hardly ever a person's.
BEFORE_PLACES = _words(
    """in at from the near into through around toward towards inside outside across via visited visit visiting
    joined join joining left leave leaving founded bought read watched watch reading watching"""
)
# And after "to", when one of these stands before it.
MOVES = _words("moved move moving went go going been trip travelled traveled flew drove relocated back come came")
# A name after one of these is only called.
CALLS = _words(
    """hey hi hello thanks thank dear bye goodbye morning cheers congrats congratulations sorry wow yes yeah no ok
    okay"""
)
ORGANISATION_ENDS = _words(
    """labs lab inc ltd llc corp co plc gmbh university college museum church street avenue river city county state
    school hospital park bank company group institute hall festival centre center club team records press"""
)

BE = _words("am is are was were i'm we're he's she's 's")
VERBS = BE | _words(
    """has have had will would can could may might must should shall do does did won't can't don't doesn't didn't
    isn't wasn't couldn't wouldn't says thinks wants likes loves knows works lives comes goes gets makes takes
    gives"""
)
FILLERS = BE | _words(
    """be been being have has had i've we've do does did just recently now currently also really finally already
    still actually always absolutely both once originally then later first even soon eventually subsequently
    previously formerly truly simply both became becomes become still"""
)
DETERMINERS = _words("a an the my our his her their its this that new beautiful famous lovely own")
OWNERS = FIRST_PERSON_OWNER | THIRD_PERSON_OWNER
TEAMS = _words("team squad crew project committee board council panel")
# Whoever "made the Lynx team" was taken into it.
SELECTIONS = TEAMS | _words(
    """teams list shortlist longlist roster cut final finals semifinal semifinals semi semis playoffs podium lineup
    line-up eleven choir orchestra band cast news papers headlines train bus ferry flight deadline"""
)
STREETS = _words(
    """street st road rd lane avenue ave square quay terrace close drive court gardens boulevard row
    wharf way hill"""
)
ROLE_PREPOSITIONS = _words("of at for by in from")
NAMED = _words("named called")
AFTER_LIST = _words("and in at on with last yesterday today to for this who when while after before again too")
# "by German author Hans Fallada": the second name is meant.
TRADE_NOUNS = _words(
    """author artist actor actress singer director writer composer band company film footballer politician painter
    poet novelist musician rapper producer architect scientist engineer philosopher journalist historian
    businessman entrepreneur group singer-songwriter filmmaker designer photographer pianist guitarist drummer
    duo trio rapper rocker playwright dramatist screenwriter cartoonist illustrator sculptor economist"""
)
