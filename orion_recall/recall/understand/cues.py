"""Cues: the phrases that decide a question's class, by language.

A line for each class and weight, phrases between bars; `_` stands for any one word. Weights: 3 says it nearly
alone, 2 says it unless more speaks for another class, 1 only tips the balance. A language without a list of its own
gets the English one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from orion_recall.models.language import Language
from orion_recall.values import QUERY_CLASSES, QueryClass

_ROLES = """
sister sisters brother brothers sibling siblings mother father mum mom dad parent parents wife husband partner
spouse son daughter child children kid kids aunt uncle cousin cousins niece nephew grandmother grandfather
grandma grandpa grandson granddaughter stepfather stepmother boyfriend girlfriend fiance fiancé fiancee fiancée
boss manager employer employee employees colleague colleagues coworker teacher student pupil mentor neighbour
neighbor roommate friend friends owner founder founders director author inventor composer performer singer
painter publisher producer president leader mayor captain chairman chairwoman ceo spouse contact successor
predecessor in-law ancestor
"""

ROLES = frozenset(_ROLES.split())
"""Words for relations between people: after "Ana's" or before "of" they ask for a relation."""

_ENGLISH = """
meta 3: what do _ know about | what do _ remember about | what do _ have on | what can you tell me about
meta 3: tell me everything | tell me all | everything _ know about | everything that _ know | all that _ know
meta 3: what became of | what has become of | what's new with | what is new with | any news of | any news from
meta 3: on record | on file | in the notes | in our notes | in memory | how much do _ know | how sure are
meta 3: how certain are | what is known about | what's known about | what is known of | what topics | which topics
meta 3: what have _ told you | what have i told | what have they told | have i told you | have i mentioned
meta 3: what have we talked about | what have we discussed | how many memories | which memories | what memories
meta 2: do you know anything | anything about | summarise what | summarize what | what information
procedural 3: how to | step by step | walk me through | steps to | steps for | steps are | show me how
procedural 3: instructions
procedural 3: how do i | how do we | how do you _ _ | how does one | how would i | how can i | how can we
procedural 3: how can you
procedural 2: how can one | how do people | how is it done | how is _ made | how are _ made | procedure | recipe for
procedural 2: way to | process for | process of | method for | method of | technique for | tutorial | guide to
procedural 2: which steps | what steps | checklist | workflow
procedural 1: properly | correctly | method | technique | process
planning 3: how should | what should we | what should i | should i | should we | best approach | strategy
planning 3: strategies
planning 3: roadmap | what if we | what if i | trade-off | tradeoff | would it be better | how could we
planning 3: how might we
planning 3: do you recommend | would you recommend | do you suggest | would you suggest | do you advise
planning 2: best way | would be best | planning to | plans for | plan for | plan to | plans to | planned to
planning 2: intend to | intends to
planning 2: aim to | aims to | optimise | optimize | options for | idea for | ideas for | better to
planning 1: plan | plans | goal | goals | advice | recommend | recommendation | suggestion | planning | improve
planning 1: could we | next year | approach | intention | decide whether
prospective 3: deadline | deadlines | remind me | reminders | reminded | not forget | don't forget
prospective 3: to do list | still to do | left to do | next steps | next step | is due | are due | due by | due date
prospective 3: coming up | upcoming | still need | still needs | still has to | still have to | still must
prospective 2: need to | needs to | have to | has to | must | pending | supposed to | due | open tasks | tasks
prospective 2: todo
prospective 2: next appointment | appointments | scheduled for | agenda | going to | about to | by tomorrow
prospective 1: task | reminder | will | outstanding | unfinished | promised to | wants to | expected to
temporal 3: since when | until when | how long ago | timeline | chronological | in what order | order of events
temporal 2: how long | how often | first time | last time | most recent | most recently | recently | lately
temporal 2: history of
temporal 2: how many days | how many weeks | how many months | how many years | the other day
temporal 2: for the first | these days | as of now | up to now | so far
temporal 1: what happened | before | after | while | ago | earlier | previously | since | latest | during | until
relational 3: relationship | related to | relation between | relation to | connection between | connected to
relational 3: know each other | knows each other | have in common | linked to | depends on | depend on | family tree
relational 2: works with | work with | works for | worked for | worked with | belongs to | married to | marrying
relational 2: responsible for | in charge of | reports to | who owns | who knows | know from | who introduced
relational 2: whose
relational 2: each other | get along | in touch with | part of | member of | connected with | involved in
relational 1: who is | who's | who was | who are | between | knows | met | together | related | connected
"""
_GERMAN = """
meta 3: was wissen wir | was weißt du | was weiss ich | was weiß ich | woran erinnerst du | was ist bekannt
meta 3: erzähl mir alles | alles über | worüber haben wir | wie sicher
procedural 3: wie kann man | wie kann ich | wie können wir | wie macht man | wie _ man | wie mache ich | anleitung
procedural 3: schritt für schritt | was mache ich | wie geht
procedural 2: wie _ ich | wie _ wir | rezept | vorgehen | schritte
procedural 1: richtig
planning 3: sollen wir | sollten wir | soll ich | sollte ich | strategie | was wäre am besten | wie sollten
planning 2: empfiehlst | empfehlung | vorschlag | rat | ziel | ziele | vorhaben | planen | plant | geplant
planning 1: plan | pläne | am besten | nächstes jahr
prospective 3: erinnere mich | nicht vergessen | noch erledigen | frist | fällig | noch tun | steht an | stehen an
prospective 2: müssen | muss | aufgaben | aufgabe | erledigen | bevorstehend
prospective 1: noch | wird | werden | termin
temporal 3: wann | seit wann | bis wann | wie lange | vor wie | in welchem jahr | an welchem tag
temporal 2: wie oft | gestern | vorgestern | letzte woche | letzten monat | letztes jahr | zum ersten mal | neulich
temporal 2: im januar | im februar | im märz | im april | im mai | im juni | im juli | im august | im september
temporal 2: im oktober | im november | im dezember | im frühling | im sommer | im herbst | im winter
temporal 1: vorher | nachher | davor | danach | zuletzt | seit | bevor | heute
relational 3: verwandt | beziehung | zusammenhang zwischen | kennen sich | kennt | gemeinsam
relational 2: wer ist | wer war | verheiratet | arbeitet mit | arbeitet bei | zuständig | gehört zu | wessen
relational 1: mann | frau | schwester | bruder | mutter | vater | tochter | sohn | chef | freundin | tante | onkel
"""
_SPANISH = """
meta 3: qué sabemos | qué sabes | qué recuerdas | cuéntame todo | todo sobre | de qué hemos hablado
procedural 3: cómo se | cómo puedo | cómo podemos | cómo hago | cómo hacer | paso a paso | instrucciones
procedural 2: receta | procedimiento | pasos
planning 3: deberíamos | debería | estrategia | cómo deberíamos | qué conviene
planning 2: recomiendas | recomendación | consejo | objetivo | objetivos | planes para
planning 1: plan | planes | mejor
prospective 3: recuérdame | pendiente | pendientes | no olvidar | plazo | fecha límite | próximos pasos
prospective 2: tengo que | tenemos que | tiene que | hay que | tareas | cita
temporal 3: cuándo | desde cuándo | hasta cuándo | hace cuánto | cuánto tiempo
temporal 2: ayer | anteayer | la semana pasada | el mes pasado | el año pasado | última vez | primera vez
temporal 1: antes | después | desde | durante
relational 3: relación | se conocen | relacionado con | en común | parentesco
relational 2: quién es | quién era | trabaja con | trabaja para | casado con | casada con | responsable de
relational 2: de quién
relational 1: hermana | hermano | madre | padre | hija | hijo | esposa | esposo | jefe | prima | primo | tía | tío
"""
_FRENCH = """
meta 3: que savons nous | que sais tu | que sait on | raconte moi tout | tout ce que | de quoi avons
procedural 3: comment faire | comment puis | comment peut on | étape par étape | instructions | comment on
procedural 2: recette | procédure | étapes | mode d'emploi
planning 3: devrions | devrais | stratégie | comment devrait
planning 2: recommandes | recommandation | conseil | conseils | objectif | objectifs | prévoit de
planning 1: plan | plans | mieux
prospective 3: rappelle moi | ne pas oublier | échéance | date limite | prochaines étapes | reste à faire
prospective 2: il faut | dois | devons | doit | tâches | rendez
temporal 3: quand | depuis quand | jusqu'à quand | combien de temps
temporal 2: hier | avant hier | la semaine dernière | le mois dernier | dernière fois | première fois
temporal 1: avant | après | depuis | pendant
relational 3: relation | se connaissent | lien entre | en commun | parenté
relational 2: qui est | qui était | travaille avec | travaille pour | marié à | mariée à | responsable de
relational 1: sœur | frère | mère | père | fille | fils | femme | mari | chef | cousin | cousine | tante | oncle
"""


_CLASSES: Mapping[str, QueryClass] = {one: one for one in QUERY_CLASSES}


class Cue(NamedTuple):
    """A phrase with its class and weight: `rest` are the words after its first, None for any word."""

    rest: tuple[str | None, ...]
    query_class: QueryClass
    weight: int


Cues = Mapping[str, Mapping[str | None, tuple[Cue, ...]]]
"""Cues by their first word, then by their second: "" where there is none, None where it is any."""


def _read(text: str) -> Cues:
    found: dict[str, dict[str | None, list[Cue]]] = {}
    for line in text.strip().splitlines():
        head, phrases = line.split(":", 1)
        name, weight = head.split()
        for phrase in phrases.split("|"):
            first, *others = phrase.casefold().replace("-", " ").split()
            rest = tuple(None if word == "_" else word for word in others)
            second = rest[0] if rest else ""
            found.setdefault(first, {}).setdefault(second, []).append(Cue(rest, _CLASSES[name], int(weight)))
    return {first: {second: _longest_first(cues) for second, cues in by.items()} for first, by in found.items()}


def _longest_first(cues: list[Cue]) -> tuple[Cue, ...]:
    return tuple(sorted(cues, key=lambda cue: -len(cue.rest)))


CUES: Mapping[Language, Cues] = {
    "english": _read(_ENGLISH),
    "german": _read(_GERMAN),
    "spanish": _read(_SPANISH),
    "french": _read(_FRENCH),
}
