"""Lines of chats, judged by hand: those that say nothing to remember, and those that do."""

from __future__ import annotations

CHATTER = """
ok
Okay, thanks!
Sure thing
Sounds good to me
haha yes
Hahaha, that's hilarious
lol
😂😂😂
👍
Good morning!
Good morning, Rosa.
Hi Ben, how are you?
hey there
Hello again!
Evening all
Night night
Bye for now!
See you soon
Take care!
Talk to you later
Thank you so much
Thanks a lot, Ivo!
Thanks for your help
Many thanks, really appreciate it.
You're welcome!
No problem at all
No worries
My pleasure
Great!
Perfect, thank you.
Wow, amazing
Oh no!
Oh no, poor you
That's awful, I'm so sorry
Sorry to hear that.
What a pity
Congrats!
Congratulations! So happy for you
Well done, you.
Good for you
Good luck!
Fingers crossed
Me too
Same here
Absolutely
Exactly!
Of course
Yes please
No way!
Really?
Seriously?
Are you kidding?
How are you today?
How's it going?
How was your day?
Did you sleep well?
Who knows?
What's that?
Why not?
Is that so?
Did you like it?
Was it any good?
Shall we?
Are you there?
What do you think?
Are you still awake?
It's raining again
What a lovely day!
So hot outside today
Still no sun, typical
The wind is terrible this morning
It's freezing here
Brr, so cold
Ugh
Hmm, let me think
I see
I know, right?
You never know
Got it
Noted, thanks
Fair enough
Never mind
Oh well
Whatever
Love you!
Miss you too
Enjoy!
Sweet dreams
Safe travels!
Have a nice weekend
Have a great day, everyone
Happy to help!
Is there anything else I can help you with?
Sure, I'd be happy to help with that!
Glad to hear it
Let me know if you have any other questions
Cheers, mate
Bonjour!
Mondays, am I right?
My cat looks at me as if I were the furniture
That sounds like a great trip!
What a cute puppy!
Wow, your garden looks amazing!
You did a great job with the cake, Lou!
That's such a beautiful story
So proud of you, that must feel amazing
You're an angel
How exciting! I'm so glad it went well.
Those look delicious
That must have been tough, I'm sorry
""".strip().splitlines()

TELLING = """
Thanks, I moved to Lyon in spring.
Okay, the meeting is on Thursday.
haha my boss quit
Good morning, the boiler is leaking again.
Hi Ben, Carla had her baby!
Yes, the blue one is mine
No, I'm allergic to nuts
I hate coriander
I love hiking
She prefers tea
We decided to sell the car
Let's cancel the gym
Please call the dentist
Don't forget the milk
Can you send me the report?
Could you water the plants while we are away?
Remind me to pay the rent
I quit
I'm pregnant!
We broke up
It's over between us
I got the job!
He passed away
My sister lives in Porto
The key is under the mat
The password is in the drawer
The meeting is off
The party was moved
It costs 40 euros
Two please
See you at 7
See you on Friday
See you tomorrow!
Happy birthday, Tom!
Congratulations on the new job!
Welcome to Canada!
My phone number is 555 0142
It's Hana here
Call me Max
I switched to decaf
I don't eat meat any more
Yes, since April
Great, I'll bring the wine
Sorry, I can't come to the wedding
Sorry I missed your call, I was at the hospital
Good news: the loan was approved
Oh no, I lost my wallet
Wow, Paula left the company
Ha, they fired the coach
Ugh, the car broke down again
Sadly the dog died
Thanks for lending me the drill
Thank you for the lemon tree
The wifi is down
Rain flooded the cellar
The snow storm closed the airport
It rained at our wedding
My new laptop arrived
The red folder has the contract
Bake it until golden, then let it cool
First unplug the cable, then press reset
Our daughter starts school
Dad is a baker
She works with me
He owns the bar next door
I'm left-handed
I can't swim
I'm scared of spiders
Window seat, please
No sugar for me
Only oat milk
Nobody may know that I'm leaving
Is Erik's surgery on Monday?
Did you know that I'm diabetic?
Shall we meet at the station at noon?
Do you remember my old flat in Ghent?
Why did the landlord raise our rent?
How do I reset the router?
Should we take the train to Vienna?
When is the deadline for the grant?
Which of us pays the deposit?
I'll pick up the kids
I have to renew my passport
The invoice is still open
The tests failed
The deploy is done
Use tabs, not spaces
We go with the second design
I agree with the green one, order it
Sure, I'll write the summary
Yes, cancel it
No, keep the old version
Okay, I'll take the job
Hello, this is Doctor Meier's office
Good evening, your parcel is at the neighbour's
Bye Zurich, hello Basel
Lovely, the baby is a girl
Noted: no milk for Jana
Danke, der Termin passt mir
Die Katze heißt Minka
That great big dog is mine
It's a nice flat with two balconies
You're a vegetarian now
Your beautiful vase is broken
That's the best bakery in town, I buy all my bread there
What a relief, the biopsy was negative
I'm so happy, I passed the exam
So sorry, the order was cancelled
It was great, we saw Fado singers in Lisbon
I'm really proud of my promotion
""".strip().splitlines()
