"""Families of words for one attribute, and what is known of each: whether it has one value, and of which types.

All folded; two words that stand together have `_` between them.
"""

from __future__ import annotations

FAMILIES: dict[str, str] = {
    "home": """
        live lives living lived flat apartment house home address street lane avenue boulevard roommate flatmate
        moved
    """,
    "landlord": "landlord landlady tenant tenancy rent",
    "rent": "the_rent our_rent my_rent rent_is rent_went rent_goes rent_has flat_costs apartment_costs house_costs",
    "work": """
        work_at works_at work_for works_for work_as works_as working_at working_for working_as worked_at job
        employer company hired career position firm nurse nursing clinic hospital laboratory lab bakery
    """,
    "boss": "boss manager supervisor report reports lead leads leader head director chief chair running",
    "workspace": "desk workspace coworking studio workplace",
    "diet": """
        vegetarian vegan pescatarian meat fish seafood shellfish eat eats eating diet dairy gluten lactose
        milk sugar allergic keto
    """,
    "drink": "drink drinks drinking alcohol wine beer coffee coffees tea caffeine decaf juice soda",
    "price": """
        price prices cost costs fee fees rate rent pay pays paid salary wage wages charge charges fare
        membership budget euro euros dollar dollars pound pounds € $ £ daily monthly quote estimate an_hour
        a_month a_day per_hour per_day per_month a_year ticket tickets money quoted quotes
    """,
    "training": """
        rehearse rehearses rehearsal répète répétons répétition probe proben ensayo ensayamos practice
        practise training class lesson course workshop stand-up standup
    """,
    "deadline": "deadline due submit submission deliver delivery finish",
    "meeting": "meeting meet appointment call stand-up standup retro interview session consultation",
    "bicycle": "bike bicycle cycle ride rides riding cycling frame",
    "car": "car drive drives driving van vehicle",
    "transport": "bus train tram metro cycle cycling walk bike drive commute",
    "number": "number numbers line extension",
    "editor": "editor ide edit editing cut cutting code coding program programs programme software",
    "recorder": "recorder record recording records tape taping microphone mic",
    "computer": "laptop computer notebook machine",
    "camera": "camera lens photos pictures",
    "storage": "photos backup backups cloud store stored drive",
    "accounts": "books bookkeeping bookkeeper accounts accountant tax taxes receipts",
    "doctor": "doctor gp physician practice",
    "dentist": "dentist orthodontist",
    "therapist": "therapist physio physiotherapist psychologist",
    "dose": "mg ml tablet tablets pill pills dose medicine medication drops",
    "hair": "hair hairdresser barber salon",
    "school": "school kindergarten nursery university college primary",
    "partner": """
        girlfriend boyfriend partner married engaged single dating husband wife divorced relationship
    """,
    "wedding": "wedding weddings marry marries marrying married ceremony bride groom",
    "title": "called name named title renamed rename working-title",
    "version": "version release released production deployed upgrade rolled",
    "key": "key keys spare",
    "secret": "password passcode code pin combination",
    "owner": "owner owns own responsible charge maintainer maintains maintain does contact",
    "bank": "bank account savings",
    "music": """
        sing sings singing alto altos soprano sopranos tenor bass choir orchestra band violin piano guitar
        drums
    """,
    "sport": "gym running run marathon swim swimming football tennis training",
    "trip": "fly flying flight trip travel travelling journey holiday holidays summer voyage",
    "concert": "concert gig show performance recital sing sings",
    "visit": "visit visits come comes coming guest guests stay",
    "supplier": "supplier supplies supply buy provider insurance",
    "shift": "shift shifts",
    "opening": "open opens opening closes hours",
    "thesis": "thesis adviser advisor supervisor",
    "teacher": "teacher teaches teach tutor coach",
    "commission": "editor producer commission commissions produce produces producing features broadcast",
    "smoke": "smoke smokes smoking cigarette cigarettes pack",
    "study": "study studies studying learn learning learns major",
    "database": "database db",
    "cleaning": "cleaner cleans cleaning",
    "chat": "chat messenger messaging slack teams whatsapp telegram signal discord",
    "launch": "launch launches release premiere opening live",
    "parcel": "parcel package delivery shipment arrives",
    "office_hours": "arrive start starts starting begins begin",
    "meal": "lunch dinner breakfast brunch",
}
"""Families of words for one attribute: texts that use words of one family are about the same kind of thing."""

ONE_VALUED = frozenset(
    """
        home landlord rent work boss
        workspace diet drink smoke price deadline bicycle car number editor recorder computer
        accounts doctor dentist therapist dose hair school partner title version key secret owner supplier
        shift opening thesis teacher commission database parcel training chat launch cleaning storage wedding
    """.split()
)
"""The families whose subject usually has one value at a time."""

FAMILY_VALUES: dict[str, tuple[str, ...]] = {
    "home": ("name", "number", "address"),
    "landlord": ("name",),
    "rent": ("money", "number"),
    "work": ("name",),
    "boss": ("name",),
    "workspace": ("name",),
    "price": ("money", "number"),
    "training": ("weekday", "clock", "name"),
    "deadline": ("date", "month", "weekday"),
    "meeting": ("date", "weekday", "clock"),
    "concert": ("date", "month", "weekday"),
    "trip": ("date", "month", "weekday"),
    "number": ("number",),
    "dose": ("number",),
    "version": ("number",),
    "owner": ("name",),
    "opening": ("clock",),
    "title": ("name",),
    "supplier": ("name",),
    "teacher": ("name",),
    "doctor": ("name",),
    "dentist": ("name",),
    "therapist": ("name",),
    "school": ("name",),
    "secret": ("number", "name"),
    "parcel": ("weekday", "date"),
    "launch": ("date", "month", "weekday"),
    "wedding": ("date", "month", "weekday"),
    "cleaning": ("weekday", "clock", "name"),
}
"""The types of the values that a family's words tell."""

NEED_A_SUBJECT = frozenset(
    "price deadline version number secret key title owner parcel work launch transport wedding".split()
)
"""Families of what many things have: two texts must share the thing as well."""

PERSONAL = frozenset("home work school partner landlord".split())
"""The families that tell of one person: what one does changes nothing of another."""

EVENTS = frozenset("training meeting concert deadline trip parcel opening visit".split())
"""Families of what is arranged: whoever says that it is moved, it is the same."""
