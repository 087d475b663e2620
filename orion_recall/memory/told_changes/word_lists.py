"""Word lists for recognising successions: cues of change, families of words, what is left out.

English first, with the plainest cues of three other languages. All folded; a phrase is matched as whole words.
"""

from __future__ import annotations

from typing import Literal

CueKind = Literal["change", "switch", "present", "amount", "shift", "end", "handover", "weak"]
"""change: another value; switch: one thing for another; present: it is so now; amount: a higher or lower value;
shift: another time; end: it is over; handover: another person; weak: only with more."""

Heard = CueKind | Literal["adds", "leaves"]
"""What a phrase may say: a cue, an addition, or that the one who is named ends."""

CUES: dict[CueKind, str] = {
    "change": """
        no _ for me | from here on | going forward | henceforth
        | from # on | from then on | from then onwards | as from | no longer | not any more
        | not anymore | any
        more | anymore | any longer | instead | from now on | from today | from today on | from tomorrow |
        from tomorrow on | from this week | from this month | as of today | as of now | as of | with effect
        from | starting today | starting tomorrow | changed my | moved _ to | moved _ _ to | changed our |
        changed the | has changed | have changed | changes to | moved to | moved into | moved out | moved
        over | moving to | moving into | moved house | moved from | renamed | rename | now called | new name
        | swapped | traded | upgraded to | updated to | went back to | reverted | these days | nowadays |
        becomes | became | has become | turned into | has turned | rolled out | is now | are now | am now |
        it's now | i'm now | we're now | used to | after all | put me on | put me with | put us on | put us
        in | put me in | new number | new address | my new | our new | starts as | started as | start as |
        gave _ back | gave _ _ back | gave _ _ _ back | taken it over | took it to | took _ away | took _ _
        away | took _ _ _ away | taken it to | has it now | were given | gave us until | extended | takes
        effect | we go with | we went with | we're going with | plus maintenant | désormais | dorénavant | à
        partir de | au lieu de | remplace | a déménagé | déménage | ne plus | statt | stattdessen | ab
        sofort | nicht mehr | von jetzt an | umgezogen | zieht um | gewechselt | en vez de | en lugar de | a
        partir de | ahora | ya no | desde ahora | se mudó | cambió | adesso | d'ora in poi
    """,
    "switch": """
        switched to | switched over | switched from | switching to | changed to | changed from | migrated
        | migrated to | gone over to | went over to | going over to | replaced | replaces | replacing
        | swapped | traded | traded in | scrap the | scrapped | ditched | we go with
        | we went with | we're going with | passé à | umgestiegen | ersetzt | cambiado a
    """,
    "present": """
        now | starts | now i | now we | i've got the | we've got the | i got the | since monday | since
        tuesday | since wednesday | since thursday | since friday | since saturday | since sunday | since
        january | since february | since march | since april | since may | since june | since july | since
        august | since september | since october | since november | since december | since last | since
        yesterday | since the | since this | since today | maintenant | jetzt | seit | desde
    """,
    "amount": """
        go up to | went to # | gone to # | goes to # | back up to | back down to | drop back to | drops back to
        | raised | raises | raise | gone up | gone down | put up to | puts up | puts _ _ up | went up | goes up
        | cut to | was cut | been cut | lowered | reduced | increased | dropped to | down to | is up to | now up
        to | augmenté | erhöht | gesenkt | subió | bajó
    """,
    "shift": """
        moved | move | date goes to | date went to | postpone | moves to | moved to | postponed
        | pushed back | pushed _ back | pushed _ _
        back | put _ off | put _ back | pushed | put back | put off | brought forward | bring forward |
        rescheduled | reschedule | reschedules | delayed | can't be the | can't be on | a week later | one
        week later | a day later | a day earlier | one day later | one day earlier | a week earlier | one
        week earlier | days later | weeks later | days earlier | weeks earlier | an hour later | an hour
        earlier | hour later | hour earlier | month later | later than planned | earlier than planned |
        slips | slipped | slip | slid | slides
        | shifted | shifts | shift it | make it | another week | by a week | by a day
        | by two weeks | by a month | same time | same hour | same hours | same place | new date | new time | new
        deadline | extended | changed the time | reporté | repoussé | décalé | avancé | verschoben |
        vorverlegt | verlegt | verschieben | aplazado | aplazada | pospuesto | adelantado | rimandato |
        spostato
    """,
    "end": """
        cancelled | canceled | cancel | called off | call it off | called it off | calling it off
        | cannot take place | can't take place
        | won't take place | will not take place | is not taking place | isn't taking place | so no | it's over
        | is off | are off | was off | fell through
        | falls through | fallen through | not happening | not going | no more | stopped | stop | quit |
        quits | gave up | given up | giving up | dropped | got rid of | sold | sell it | lost my | lost the
        | died | is dead | gone | gone for good | stolen | closed | closes | has shut | shut down | shut |
        retired | retires | bankrupt | bust | ended | is over | are over | split up | broke up | divorced |
        separated | withdrew | withdrawn | expired | cancelled my | resigned | resigns | handed in _ notice
        | handed _ notice in
        | given notice | gave notice | fired | laid off | on leave | on sabbatical | parental leave
        | maternity leave | has
        left | have left | left for | had to leave | leaves | is leaving | are leaving | i'm leaving | moved
        away | moved out | moved on | unsubscribed | deleted | discontinued | passed away
        | can't come | can't make it | won't come | won't be coming | won't make it | won't
        happen | won't be there | pulled out | pulling out | backed out | can't make the | can't make half
        | let's leave it | give it a miss | written off | to the scrapyard | to the scrappy | to the scrap
        | for scrap | doctor's orders | that's the end of my | that's the end of our
        | last day | last shift | days without | weeks without | months without | finish there
        | finish at the | finishing at the | finished at the | annulé
        | annulée | quitte | a quitté | terminé |
        abgesagt | fällt aus | gekündigt | verlässt | verlassen | cancelado | cancelada | dejado | deja |
        annullato
    """,
    "handover": """
        took over | takes over | taking over | taken over | take over | taking it over | handed over
        | hands over | handed _ over | handed _ _ over | handed _ _ _ over | handed it over | hand over
        | handed it to | steps in | stepped in | stepping in
        | filling in
        | fills in | succeeds | succeeded | her chair | his chair | her desk | his desk | her job | his job
        | her role | his role | her place | his place | in charge now | becomes | is the new | as the new
        | becomes the | does it now | responsible now | instead of him | instead of her
        | prend la relève | reprend | remplace | übernimmt | übernommen | löst | se hace cargo | asume
    """,
    "weak": """
        has left | left | started | starting | begin | began | bought | got | finally | again | today
        | yesterday | changed | later | earlier | next week | this summer | this year | this month | decided
    """,
}

IDIOMS = """
    fired up | fired me up | fires me up | gone through | going through | been through | closed minded |
    make it happen | make it work | make it all | make it easy | pay off | pays off | paid off | ended up |
    ends up | not going to be | not going back | won't believe | won't forget | won't regret | dropped by |
    dropped in | closed on | left over | had to leave it | gone well | gone wild | moved on to | moved by |
    moved me | moved to tears | stopped by | stop by | gone mad | used to it | get used to | got used to |
    getting used to | move forward | move fast | pushed me | pushed us | pushed himself | pushed myself |
    sold out | sold well | quit on | broke up laughing | shut up | changed my life | changed our lives |
    changed them | changed me | gave up on | won't give up | never give up | stop there | now that | now
    let's | now we can | is used to | are used to | be used to | was used to | up to you | up to me | now
    and then | now and again | every now | right now | until now | till now | by now | just now | for now |
    even now | gone quiet | gone silent | is off that
    | is off this | is off next | gone to bed | gone to sleep | gone to school | gone to work | gone on
    | gone home | gone out | after all this | after all these | after all that | after all the | after all of
    | after all my | after all our | after all your
    | keep going | keeps going | kept going | keep on going | keep you going | instead of giving up
    | instead of quitting | instead of stopping | not giving up | can't stop | couldn't stop | don't stop
    | won't stop | to stop and | changed the game | changes the game | our extended | my extended
    | extended family | extended fam | the last day | last day of | every last day | last day to
    | the last shift | always last day | going home now | coming home now
    | finish at the end | finishing at the end | finished at the end
"""
"""Phrases that say no change, though a phrase in them does."""

TALK_WORDS = frozenset(
    """
        happen happens happened look looks looking looked feel feels feeling felt help helps helped helping
        helpful mean means meant keep keeps keeping kept happy glad sure hope hopes hoping wish try tries tried
        trying support supports supporting supportive amazing awesome incredible inspiring chat chats chatted
        chatting lately recently nice lovely wonderful fantastic excited exciting proud dream dreams journey
        difference kind kinds easy hard tough different important special remember believe believes belief wow
        yeah yep hey sounds sound totally definitely appreciate appreciated congrats congratulations motivated
        motivation motivate motivating encourage encouragement inspire inspired push pushing life lives world
        show shows someone everyone somebody anyone person share shares shared sharing experience experiences
        learn learned learning image photo picture check plan plans idea ideas ok okay solid data quote
        hear hears heard hearing myself yourself himself herself itself ourselves yourselves themselves others enjoy
        enjoys enjoyed enjoying must making winning
    """.split()
)
"""Words that everybody says of everything: two texts that share them are not about the same."""

LEAVES = """
    has left | have left | left | leaves | is leaving | i'm leaving | i am leaving | retired | retires
    | is retiring
    | i'm retiring | resigned | resigns
    | gone | has gone | moved away | moved out | on leave | parental leave | maternity leave | on sabbatical
    | died
    | passed away | fired | laid off | quit | quits | cancelled | canceled | called off | handed in _ notice
    | handed _ notice in
    | last day | last shift | is off | was off | bankrupt | has shut | shut | quitte | a quitté | verlässt
    | verlassen | gekündigt
    | cancelado | deja
"""
"""Phrases by which the one who is named ends: whoever he was before, he is not any more."""

LAST_DAYS = frozenset(("last day", "last shift"))
"""Phrases of leaving that are said of whose day it is."""

LEAVE_WORDS = frozenset(f"{LEAVES} leaving taking taken now finally also just".replace("|", " ").split())
"""Words after "Graham's" that tell of Graham, and not of what is his."""

GIVING = ("hand", "hands", "handed")
"""Beginnings of phrases of a handover that are said of who had the post before; the others are of who gets it."""

AMOUNTS_AFTER = frozenset("us me you them him her it only about just".split())
"""Words after "leaves" that what is left over has, as figures: "that leaves us 3,000"."""

ENDS_BEFORE = frozenset(
    phrase.strip()
    for phrase in """
        gone | gone for good | is off | are off | was off | is over | are over | is dead | died | passed away
        | expired | fell through | falls through | fallen through | stolen | bankrupt | has left | have left
        | leaves | is leaving | are leaving | retired | retires | resigned | resigns | on leave | on sabbatical
        | parental leave | not happening | won't happen
    """.split("|")
)
"""Phrases whose subject stands before them: what follows is not over."""

ENDS_AFTER = frozenset(
    phrase.strip()
    for phrase in """
        no more | so no | stopped | stop | quit | quits | gave up | given up | giving up | dropped | got rid of
        | sold
        | cancelled | canceled | cancel | called off | deleted | discontinued | cancelled my | unsubscribed
        | lost my | lost the
    """.split("|")
)
"""Phrases whose object stands after them: nothing else is over."""

ABSENCES = frozenset(
    phrase.strip()
    for phrase in """
        can't come | can't make it | won't come | won't be coming | won't make it | won't be there
        | can't make the
        | can't make half
    """.split("|")
)
"""Phrases that say that somebody does not come: what he would have come to is still on."""

DEPARTURES = frozenset(
    phrase.strip()
    for phrase in """
        leaves | is leaving | are leaving | i'm leaving | has left | have left | left for | had to leave
        | resigned
        | resigns | retired | retires
    """.split("|")
)
"""Phrases by which somebody leaves something: nothing of others ends."""

REACHES = frozenset(
    phrase.strip()
    for phrase in """
        moved to | moved into | moving to | moving into | moved over | switched to | switching to
        | switched over
        | changed to | migrated to | gone over to | went over to | upgraded to | updated to | turned into
    """.split("|")
)
"""Phrases of change that what is new stands after."""

NEW = frozenset("new nouveau nouvelle nouvel neu neue neuer neues nuevo nueva".split())

ADDITIONS = """
    also | as well | another | one more | a second | second | a third | too | in addition | additionally
    | besides | extra | further | on top | as i said | as you know | as always | as usual | still | aussi
    | auch | außerdem | noch ein | noch eine | también | además
"""
"""Phrases that add something, or repeat it: nothing before is over."""

GENERAL_WORDS = frozenset(
    """
        go goes going went gone get gets got getting make makes made take takes took taking give gives gave
        given put puts say says said tell told talk talks come comes came see sees saw know knows think thinks
        want wants need needs like likes love loves good great nice big little lot lots bit way day days week
        weeks month months year years time times hour hours minute minutes morning evening night noon today
        tomorrow yesterday tonight last next first new old now still yet already since thing things something
        anything nothing everything one two three four five six seven eight nine ten dozen half many much well
        back again always never ever soon later earlier please thanks thank hello hi dear really quite also
        every each around away use uses used using set start started done do does man woman people everybody
        news finally monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays
        thursdays fridays saturdays sundays january february march april may june july august september
        october november december o'clock am pm past quarter until till from note number left leave leaves
        changed change moved move moves moving called same another instead longer more less yes no not can
        could can't don't won't let lets let's mr mrs ms dr miss madame monsieur professor sir mister whole
        early late look looks keep keeps kept find found show shows sure okay ok right small long short happy
        sorry own stay stays work works working worked job jobs madam janvier février mars avril mai juin
        juillet août septembre octobre novembre décembre januar februar märz juni juli oktober dezember enero
        febrero abril mayo junio julio agosto septiembre octubre noviembre diciembre yeah yep yup hey wow
        awesome amazing cool lovely fun glad family friends friend together support idea ideas stuff positive
        important awareness picture pictures photo share shared life world joy proud passion moment moments
        memories per becomes become bring brings brought bought buy buys sold euro euros dollar dollars pound
        pounds
    """.split()
)
"""Words that say little about the subject: they count a little where two texts share them, and never alone."""

NEW_OF_ONES_OWN = ("my new", "our new")
"""Phrases of change that are of what they name alone: "my new phone" changes nothing of a car."""

STATES = ("is now", "are now", "am now", "it's now", "i'm now", "we're now", "these days", "nowadays")
"""Phrases of change that say what is so: where nothing differs, nothing has changed."""

TRANSACTIONS = frozenset("invoice invoices bought paid ordered order receipt bill bills sold booked signed".split())
"""Words of what happens once: such a text restates nothing, whatever number it tells."""

ROLES = frozenset(
    """
        boss manager supervisor producer editor director head lead leader chief chair coach trainer teacher
        tutor adviser advisor doctor dentist therapist contact accountant bookkeeper owner maintainer lawyer
        agent landlord landlady cleaner hairdresser babysitter nanny assistant secretary treasurer president
        captain conductor host organiser organizer representative buyer supplier responsible charge runs leads
        manages reports deputy
    """.split()
)
"""Words for what somebody is to others: one who leaves makes room for another."""

GREETINGS = frozenset(
    """
        hello hi hey dear thanks thank good morning evening bonjour salut cher chère chers hallo liebe lieber
        hola
    """.split()
)
"""Words before the name of whom a text is addressed to."""
