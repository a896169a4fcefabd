package session

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"amnesia/pkg/memory"
)

// subject is a thing that a person may ask an assistant to remember. %[1]s is an attribute, %[2]d a number that no
// other memory of the user has.
type subject struct {
	fact     string // ends in the token, %[3]s
	question string
}

func subjects() []subject {
	return []subject{
		{"The code of my %[1]s locker %[2]d is %[3]s.", "What is the code of my %[1]s locker %[2]d?"},
		{"The serial number of my %[1]s camera no. %[2]d is %[3]s.", "What is the serial number of my %[1]s camera no. %[2]d?"},
		{"The booking reference of my %[1]s-class trip no. %[2]d is %[3]s.", "Which booking reference does my %[1]s-class trip no. %[2]d have?"},
		{"My %[1]s notebook no. %[2]d is labelled %[3]s.", "How is my %[1]s notebook no. %[2]d labelled?"},
		{"The parcel in the %[1]s box %[2]d has the tracking number %[3]s.", "What is the tracking number of the parcel in the %[1]s box %[2]d?"},
		{"The password of the guest network in the %[1]s room %[2]d is %[3]s.", "What is the password of the guest network in the %[1]s room %[2]d?"},
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// compose writes a memory of the payload's shape, and how a person would ask for it. Question and text share the
// subject, never the token.
func compose(r *rand.Rand, payload memory.Payload, token string, n int) (text, question string) {
	colour := pick(r, "blue", "green", "red", "yellow", "white", "black", "silver", "golden")
	s := pick(r, subjects()...)
	fact := fmt.Sprintf(s.fact, colour, n, token)
	question = fmt.Sprintf(s.question, colour, n)
	switch payload {
	case memory.PayloadLong:
		text = long(r, fact)
	case memory.PayloadChinese:
		return chinese(r, token, n)
	case memory.PayloadEmoji:
		text = pick(r, "👩‍👩‍👧‍👦", "🧑🏽‍🚀", "👨‍👩‍👦") + " " + fact + " " + pick(r, "🏳️‍🌈", "🏴‍☠️", "❤️‍🔥") + pick(r, "🎉", "🦊", "🪐", "🇫🇷")
	case memory.PayloadMarkup:
		text = pick(r,
			fact+` Don't "lose" it; <b>it's important</b> & 100% {{true}}.`,
			fact+` <script>alert('x')</script> '); DROP TABLE messages; -- \ `+"`${x}`"+` %s &lt;end&gt;`,
			fact+` It's O'Reilly's "note" <img src=x onerror=alert(1)> OR 1=1 /* & */ [link](http://example.com)`)
	case memory.PayloadMultiline:
		text = "Please remember this for me:\n\n- " + fact + "\n- " + pick(r,
			"It is written down nowhere else.", "I will ask you for it.", "Nobody else knows it.") + "\n\nThank you!"
	default:
		text = pick(r, "", "", "Please remember: ", "Keep this in mind for me. ") + fact
	}
	return text, question
}

// long pads the fact to about 2 KB. It stands at the beginning, in the middle or at the end: a text that is cut off
// must lose something that is looked for.
func long(r *rand.Rand, fact string) string {
	var sentences []string
	for size := len(fact); size < 2000; {
		s := fmt.Sprintf("%s %s %s %s.",
			pick(r, "Yesterday", "Last week", "On Monday", "In the evening", "After lunch", "Before the meeting"),
			pick(r, "my neighbour", "a colleague", "my sister", "the man from the shop", "an old friend", "our teacher"),
			pick(r, "told me about", "wrote a long letter about", "could not stop talking of", "laughed about", "drew a picture of"),
			pick(r, "the weather in the mountains", "a train that never came", "the price of good coffee", "a cat on the roof",
				"the garden behind the house", "a film that nobody had seen"))
		sentences = append(sentences, s)
		size += len(s) + 1
	}
	at := pick(r, 0, len(sentences)/2, len(sentences))
	sentences = append(sentences[:at], append([]string{fact}, sentences[at:]...)...)
	return strings.Join(sentences, " ")
}

func chinese(r *rand.Rand, token string, n int) (text, question string) {
	colour := pick(r, "蓝色", "绿色", "红色", "黄色", "白色", "黑色")
	s := pick(r,
		subject{"请记住：我的%[1]s储物柜%[2]d号的密码是 %[3]s。", "我的%[1]s储物柜%[2]d号的密码是什么？"},
		subject{"我第%[2]d号%[1]s行李箱的编号是 %[3]s，别忘了。", "我第%[2]d号%[1]s行李箱的编号是什么？"},
		subject{"%[1]s房间%[2]d的门禁卡号是 %[3]s。", "%[1]s房间%[2]d的门禁卡号是多少？"})
	return fmt.Sprintf(s.fact, colour, n, token), fmt.Sprintf(s.question, colour, n)
}
