"""Language detection by script and function words: no model, a few microseconds.

It only has to tell apart languages that the keyword index can stem, and only where it is sure: everything else is
English, whose stems the index holds of every text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Literal

from orion_recall.text.normal import STOP_WORDS

Language = Literal[
    "english", "german", "french", "spanish", "italian", "portuguese", "dutch", "danish", "norwegian", "swedish",
    "finnish", "romanian", "hungarian", "turkish", "russian", "greek", "arabic", "hebrew",
]  # fmt: skip

DEFAULT: Language = "english"

# The words of these lists that several languages share count a share for each.
_SMALL_WORDS: dict[Language, str] = {
    "german": """
        der die das ein eine einen einem einer eines und oder aber ist sind war waren wird werden wurde
        nicht kein keine ich du er sie es wir ihr mich mir dich dir uns euch mein meine dein deine sein
        seine unser unsere in im ins auf aus bei mit nach von vom zu zum zur für über unter vor hinter
        zwischen durch gegen ohne um wenn dann als wie was wer wen wem wessen wann wo warum wieso welche
        welcher welches welchen hat habe haben hatte hast bin bist auch noch schon nur sehr so da dass weil
        man sich am an den dem des doch mal ja nein hier dort muss müssen kann können soll sollen will
        wollen darf gibt viel viele wieviel vorher heute gestern morgen""",
    "french": """
        le la les un une des du de et ou mais est sont était étaient sera pas ne je tu il elle nous vous ils
        elles on mon ma mes ton ta tes son sa ses notre votre leur leurs ce cet cette ces que qui quoi dont
        où quand comment pourquoi quel quelle quels quelles combien dans sur sous avec sans pour par en au
        aux chez entre depuis avant après plus moins très aussi encore déjà ont avons avez suis es été être
        avoir fait""",
    "spanish": """
        el la los las un una unos unas de del y o pero es son era eran fue fueron no yo tú él ella nosotros
        ellos ellas me te se nos mi mis tu tus su sus nuestro nuestra este esta estos estas ese esa que qué
        quién quiénes cuándo dónde cómo cuál cuáles cuánto cuántos cuánta cuántas por porque para con sin en
        al a sobre entre desde hasta antes después más muy también ya hay he ha han había estaba está están
        ser estar""",
    "italian": """
        il lo la i gli le un uno una di del della dei delle degli e o ma è sono era erano non io tu lui lei
        noi voi loro mi ti si ci mio mia tuo tua suo sua nostro nostra questo questa questi queste quello
        quella che chi cosa quando dove come perché quale quali quanto quanti quanta quante per con senza in
        nel nella al alla da dal dalla su sul sulla tra fra prima dopo più molto anche già ho hai ha abbiamo
        hanno era stato essere""",
    "portuguese": """
        o a os as um uma uns umas de do da dos das e ou mas é são era eram foi foram não eu tu ele ela nós
        eles elas me te se nos meu minha teu tua seu sua nosso nossa este esta esse essa isto isso que quem
        quando onde como qual quais quanto quantos quanta quantas porque por para com sem em no na nos nas
        ao à pelo pela sobre entre desde até antes depois mais muito também já tem têm há estava está estão
        ser""",
    "dutch": """
        de het een en of maar is zijn was waren wordt werd worden niet geen ik jij je hij zij ze wij we
        jullie hun mij me jou ons mijn jouw uw onze dit dat deze die wie wat wanneer waar waarom hoe welke
        hoeveel in op aan uit bij met naar van voor over onder tussen door tegen zonder om als dan ook nog
        al alleen heel zo er heb hebt heeft hebben had moet moeten kan kunnen zal zullen te tot""",
    "danish": """
        og i jeg det at en et den til er som på de med han af for ikke der var mig sig men har om vi min
        havde ham hun nu over da fra du ud sin dem os op man hans hvor eller hvad skal selv her alle vil
        blev kunne når være dog noget hvem hvornår hvordan hvorfor hvilken hvilke efter også meget denne
        dette disse været""",
    "norwegian": """
        og i jeg det at en et den til er som på de med han av for ikke var meg seg men har om vi min hadde
        ham hun nå over da fra du ut sin dem oss opp man hans hvor eller hva skal selv her alle vil ble
        kunne når være noe hvem hvordan hvorfor hvilken hvilke etter også mye denne dette disse vært""",
    "swedish": """
        och i jag det att en ett den till är som på de med han av för inte var mig sig men har om vi min
        hade honom hon nu över då från du ut sin dem oss upp man hans eller vad ska själv här alla vill blev
        kunde när vara något vem hur varför vilken vilka efter också mycket denna detta dessa varit""",
    "finnish": """
        ja on ei se että en hän oli mutta niin kuin minä sinä me te he minun sinun hänen tämä tuo nämä mikä
        mitä kuka kenen milloin missä miten miksi minne mistä kun jos myös vain vielä nyt sitten ovat olivat
        ole ollut olla joka jotka kanssa ennen jälkeen tai sekä koska kuinka paljon""",
    "romanian": """
        și în la de cu pe nu este sunt era erau un o una al ai ale lui ei lor eu tu el ea noi voi mă te se
        meu mea tău ta său sa ce cine când unde cum care cât câți câte pentru din prin despre între după
        înainte mai foarte și sau dar că să am are avem au fost fi acest această acum""",
    "hungarian": """
        a az és hogy nem is egy de van volt voltak ez ezt azt mi mit ki kit mikor hol hogyan miért melyik
        mennyi hány én te ő mi ti ők az meg el ha csak már még mint vagy itt ott után előtt között nagyon
        lesz lehet kell nekem neki""",
    "turkish": """
        ve bir bu şu o da de ne için ile mi mı mu mü ben sen biz siz onlar benim senin onun bizim var yok
        değil gibi daha çok en kim nerede zaman nasıl neden niçin hangi kaç sonra önce kadar ama veya çünkü
        olan oldu olarak ise""",
    "english": "did does do the of and to what which who whom whose when where why how was were is are has had",
}
_SCRIPTS: tuple[tuple[re.Pattern[str], Language], ...] = (
    (re.compile("[\u0400-\u04ff]{2}"), "russian"),
    (re.compile("[\u0370-\u03ff]{2}"), "greek"),
    (re.compile("[\u0600-\u06ff]{2}"), "arabic"),
    (re.compile("[\u0590-\u05ff]{2}"), "hebrew"),
)
_MOST_WORDS = 120
_LEAST_HITS = 2


_LISTS: dict[Language, frozenset[str]] = {
    language: frozenset(words.casefold().split()) for language, words in _SMALL_WORDS.items()
}
_LISTS[DEFAULT] |= STOP_WORDS
_LANGUAGES_OF: dict[str, tuple[Language, ...]] = {
    word: tuple(language for language, words in _LISTS.items() if word in words)
    for word in frozenset[str]().union(*_LISTS.values())
}


def language_of(words: Sequence[str]) -> Language:
    """The language of these folded words, judged by the first 120; English unless two words or more speak for
    another, and more of them than for English.
    """
    hits: dict[Language, int] = {}
    sure: dict[Language, float] = {}
    for word in islice(words, _MOST_WORDS):
        spoken = _LANGUAGES_OF.get(word) or (() if word.isascii() else _by_script(word))
        for language in spoken:
            hits[language] = hits.get(language, 0) + 1
            sure[language] = sure.get(language, 0.0) + 1.0 / len(spoken)
    if not hits:
        return DEFAULT
    best = max(hits, key=lambda language: (sure[language], hits[language]))
    sure_enough = hits[best] >= _LEAST_HITS and hits[best] > hits.get(DEFAULT, 0)
    return best if sure_enough else DEFAULT


def small_words(language: Language) -> frozenset[str]:
    """The function words of a language; none for one that is detected by its script."""
    return _LISTS.get(language, frozenset())


def _by_script(word: str) -> tuple[Language, ...]:
    return tuple(language for pattern, language in _SCRIPTS if pattern.search(word))
