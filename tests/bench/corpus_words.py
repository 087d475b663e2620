"""The words that the synthetic corpus is made of: names, things, doings, and the sentences that hold them."""

from __future__ import annotations

FIRST_NAMES = """
Ana Bo Mira Jonas Elif Tomas Priya Lars Noor Hugo Ines Kofi Marta Sven Yuki Omar Greta Paolo Aisha Nils Rosa
Emil Lena Tariq Vera Anton Chloe Mateo Freya Idris Clara Bruno Selma Pavel Nadia Oskar Lucia Farid Ingrid Milan
Sofia Rafael Hanna Dmitri Leila Viktor Amara Felix Zoe Karim Astrid Diego Tessa Ravi Elena Magnus Fatima Theo
Petra Samir
""".split()

LAST_NAMES = """
Solberg Okafor Lindqvist Moreno Haddad Novak Tanaka Fischer Osei Bergman Rossi Kaya Larsen Petrov Silva Nakamura
Weber Andersen Costa Ibrahim Kovacs Dubois Hansen Mehta Romano Eriksen Farouk Jensen Keller Marques Olsen Sato
Varga Winther Zeman Aalto Bianchi Castro Dahl Engel Fontaine Grimaldi Holm Ivanova Jansson Klein Lopez Meyer
Nilsen Ortega
""".split()

PLACES = """
Bergen Oslo Lisbon Porto Hamburg Trieste Gdansk Utrecht Leeds Cork Malmo Tampere Riga Graz Basel Lyon Nantes
Bilbao Seville Turin Bologna Split Ljubljana Brno Krakow Tartu Aarhus Odense Gothenburg Trondheim Stavanger
Reykjavik Galway Dundee Bristol Cardiff Ghent Antwerp Bremen Leipzig Dresden Salzburg Zurich Geneva Marseille
Toulouse Valencia Murcia Palermo Bari Athens Izmir Bursa Sofia Varna Debrecen Kaunas Vilnius Rostock Kiel
""".split()

_ORGANISATION_HEADS = """
Fjord Harbour Copper Northlight Quayside Meridian Juniper Saltmarsh Granite Beacon Lantern Willow Kestrel Anchor
Cobalt Driftwood Ember Foxglove Glacier Heron
""".split()
_ORGANISATION_KINDS = ("Labs", "Works", "Studio", "Logistics", "Robotics")
ORGANISATIONS = [f"{head} {kind}" for kind in _ORGANISATION_KINDS for head in _ORGANISATION_HEADS]

PROJECTS = [
    f"Project {name}"
    for name in """
Halcyon Marigold Obsidian Peregrine Quartz Sundial Tidewater Umbra Verbena Wayfarer Zephyr Almanac Bramble
Cinder Dovetail Eclipse Firefly Gossamer Hawthorn Indigo Jackdaw Keystone Larkspur Monsoon Nightjar Orchard
Pinwheel Rosewood Sparrow Thistle Undertow Vesper Windrose Yarrow Ambergris Bluebell Catapult Dandelion
Evergreen Foundry
""".split()
]

OBJECTS = [
    name.strip()
    for name in """
gearbox, harbour crane, water pump, budget sheet, delivery van, test bench, battery pack, sensor board, wind
turbine, loading ramp, greenhouse roof, ticket queue, invoice printer, radio mast, ferry timetable, garden
fence, piano, sailing boat, coffee machine, server rack, backup tape, lease contract, insurance claim, kitchen
sink, guest list, wedding cake, science poster, grant proposal, museum catalogue, tax return, bicycle trailer,
camping stove, bookshelf, night train booking, visa application, dentist appointment, choir rehearsal, chess
tournament, training plan, vaccination card, compost heap, apple tree, roof antenna, heat exchanger, drainage
pipe, fire door, elevator motor, conveyor belt, pallet scanner, cold store, forklift charger, parking permit,
customs form, safety report, release checklist, login page, search index, payment gateway, data pipeline, error
budget, rate limiter, staging cluster, login token, feature flag, schema migration, load balancer, message
broker, audit log, alarm panel, weather station, drone licence, tide gauge, oyster bed, sheep fence, hay barn,
milk tank, cheese cellar, bread oven, wine label, market stall, pop-up shop, photo archive, film reel, sound
desk, stage curtain, costume rack, violin bow, drum kit, hiking map, climbing rope, kayak rack, ski pass,
football kit, swimming lesson, language course, reading group, neighbourhood newsletter, playground slide,
recycling bin, street lamp, bus shelter, bridge inspection
""".replace("\n", " ").split(",")
]

VERBS = """
repair order inspect replace paint measure move sell deliver calibrate translate review publish rebuild cancel
postpone finish clean insure photograph label test rent install upgrade document archive split sketch approve
""".split()

STATES = [
    name.strip()
    for name in """
two weeks behind, almost finished, blocked by the supplier, over budget, ready for a second look, half
assembled, waiting for a signature, louder than it should be, back in working order, missing a spare part,
nearly sold out, stuck in customs, cheaper than we feared, leaking again, booked until spring, far too heavy,
lighter than before, better documented than most, the talk of the office, somebody else's job now
""".replace("\n", " ").split(",")
]

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()

OPENERS = (
    "Good news:",
    "Just so you know,",
    "I forgot to say that",
    "You asked last week, so here it is:",
    "Honestly,",
    "As far as I can tell,",
    "Quick update,",
    "Before I forget,",
    "After the call this morning I can say that",
)

# What a turn says. {person} and {other} are people, {object} and {second} things.
SAYINGS = (
    "I work at {organisation} in {place} now, and most of my week goes into the {object} and the {second}",
    "{person} works at {organisation} these days and looks after the {object} there",
    "{person} moved to {place} last spring because the {object} had to stay close to the workshop",
    "{person} lives in {place} with {other}, and the {object} is {state} as always",
    "the {object} for {project} is {state}, so {person} wants to {verb} it before {day}",
    "we could {verb} the {object} in {place} if {person} finds somebody for the {second}",
    "{person} leads {project} since the summer and asked whether the {object} is {state}",
    "I met {person} in {place}, and we talked for an hour about how to {verb} the {object}",
    "{person} joined {organisation} to work on {project}, which still needs a new {object}",
    "{person} bought a {object} from {other} for {number} euros, and it is already {state}",
    "the meeting about {project} was moved to {day} because the {object} is {state}",
    "{organisation} will {verb} our {object} for {number} euros, although {person} thinks that is too much",
    "my sister {person} visited {place} and brought back a {object} that nobody knows how to {verb}",
    "{person} and {other} disagree about the {object}: one wants to {verb} it, the other says it is {state}",
    "I like the plan for {project}, but somebody has to {verb} the {object} and the {second} first",
    "{person} studied at the {organisation} academy in {place} and wrote about the {object} in {second} terms",
    "there are {number} complaints about the {object} in {place}, and {person} answers them every {day}",
    "{person} sold the old {object} to {other}, who runs {organisation} in {place}",
)

TAILS = (
    "Can you remind me on {day}?",
    "The {second} can wait, I think.",
    "{other} knows the details if I am away.",
    "It will cost about {number} euros, give or take.",
    "We should {verb} the {second} at the same time, or it makes no sense.",
    "Nobody in {place} has answered my letter about it so far, which worries me a little.",
    "Let us talk about it again when {project} is out of the way.",
    "I wrote all of it down for {other} on {day} evening, including what we paid for the {second}.",
    "That is the third time this year.",
)

QUESTIONS_WITH_NAMES = (
    "What did {person} say about the {object} and {project}?",
    "Does {first} still want to {verb} the {object} in {place}?",
    "Who helped {person} {verb} the {object} for {organisation}?",
    "When was {first} going to {verb} the {second} after the {object}?",
    "How much did {person} pay for the {object} in {place}?",
    "Why did {first} and {other} disagree about the {object} at {organisation}?",
    "Where does {person} keep the {object} now that the {second} is {state}?",
    "Is it true that {first} moved to {place} because of the {object} and the {second}?",
    "What does {person} think of the {second} for {project}?",
)

QUESTIONS_WITHOUT_NAMES = (
    "Which {object} is {state}, and who wants to {verb} it?",
    "What is left to do before we can {verb} the {object} in {place}?",
    "Has anybody in {place} asked about the {object} or the {second}?",
    "How is {project} going, and is the {object} still {state}?",
    "What happened to the {object} after the {second} was {state}?",
    "Can we {verb} the {object} on {day} without the {second}?",
    "Did {organisation} ever {verb} the {object} for us?",
    "Remind me what we decided about the {object}, the {second} and {project}",
)
