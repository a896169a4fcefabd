package redis

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// document is the texts of a JSON value, and where in it they stand. It is read for its texts alone, so it takes more
// for JSON than RFC 8259 does: any number, and any byte in a text. It may be used again and again, and then needs no
// memory of its own.
type document struct {
	text    []byte // whoever gave it keeps it
	texts   []span
	objects []object // the first one is what is in none
	items   []place  // of lists; the first one is what is in none
	pieces  []byte   // of an object that comes piece by piece
	plain   []byte   // a text without its escapes
	name    []byte   // of an item
}

// span is one text, without its quotes.
type span struct {
	from, to     int
	escaped      bool
	object, item int
}

type object struct {
	in   int // which other one
	echo bool
}

type place struct {
	in int // which other one
	n  int
}

func (d *document) reset(text []byte) {
	d.text, d.texts = text, d.texts[:0]
	d.objects = append(d.objects[:0], object{})
	d.items = append(d.items[:0], place{})
}

// begin begins an object that comes piece by piece.
func (d *document) begin() {
	d.pieces = d.pieces[:0]
	d.reset(nil)
}

// piece adds a name (i is even) or the text after it.
func (d *document) piece(i int, text []byte) {
	if i > 0 {
		d.pieces = append(d.pieces, ' ')
	}
	s := span{from: len(d.pieces), to: len(d.pieces) + len(text)}
	d.pieces = append(d.pieces, text...)
	d.text = d.pieces
	if i%2 == 0 {
		d.texts = append(d.texts, s)
		return
	}
	name := &d.texts[len(d.texts)-1]
	d.objects[0].echo = d.objects[0].echo || d.saidByApp(d.text[name.from:name.to], s)
	*name = s
}

// parse reads a document, and reports whether it is one.
func (d *document) parse(text []byte) bool {
	d.reset(text)
	end, ok := d.value(d.space(0), 0, 0, 0)
	return ok && d.space(end) == len(text)
}

// value reads the value at a place, and gives where it ends.
func (d *document) value(at, object, item, depth int) (end int, ok bool) {
	const most = 1000 // values within each other
	if at >= len(d.text) || depth > most {
		return at, false
	}
	switch d.text[at] {
	case '"':
		s, end, ok := d.quoted(at)
		if s.object, s.item = object, item; ok {
			d.texts = append(d.texts, s)
		}
		return end, ok
	case '{':
		return d.object(at, object, item, depth)
	case '[':
		return d.list(at, object, item, depth)
	}
	end = at
	for end < len(d.text) && strings.IndexByte("+-.0123456789Eaeflnrstu", d.text[end]) >= 0 {
		end++
	}
	switch word := d.text[at:end]; {
	case string(word) == "true", string(word) == "false", string(word) == "null":
		return end, true
	default:
		return end, len(word) > 0 && (word[0] == '-' || '0' <= word[0] && word[0] <= '9')
	}
}

func (d *document) object(at, in, item, depth int) (end int, ok bool) {
	self := len(d.objects)
	d.objects = append(d.objects, object{in: in})
	at = d.space(at + 1)
	if d.is(at, '}') {
		return at + 1, true
	}
	for {
		if !d.is(at, '"') {
			return at, false
		}
		name, end, ok := d.quoted(at)
		if at = d.space(end); !ok || !d.is(at, ':') {
			return at, false
		}
		at = d.space(at + 1)
		text, n := d.is(at, '"'), len(d.texts)
		if at, ok = d.value(at, self, item, depth+1); !ok {
			return at, false
		}
		if text && d.saidByApp(d.text[name.from:name.to], d.texts[n]) {
			d.objects[self].echo = true
		}
		switch at = d.space(at); {
		case d.is(at, '}'):
			return at + 1, true
		case !d.is(at, ','):
			return at, false
		}
		at = d.space(at + 1)
	}
}

func (d *document) list(at, object, in, depth int) (end int, ok bool) {
	at = d.space(at + 1)
	if d.is(at, ']') {
		return at + 1, true
	}
	for n := 0; ; n++ {
		d.items = append(d.items, place{in, n})
		if at, ok = d.value(at, object, len(d.items)-1, depth+1); !ok {
			return at, false
		}
		switch at = d.space(at); {
		case d.is(at, ']'):
			return at + 1, true
		case !d.is(at, ','):
			return at, false
		}
		at = d.space(at + 1)
	}
}

func (d *document) is(at int, b byte) bool { return at < len(d.text) && d.text[at] == b }

func (d *document) space(at int) int {
	for at < len(d.text) && (d.text[at] == ' ' || d.text[at] == '\n' || d.text[at] == '\t' || d.text[at] == '\r') {
		at++
	}
	return at
}

// quoted reads a text, from its first quote to after its last.
func (d *document) quoted(at int) (s span, end int, ok bool) {
	s.from = at + 1
	for i := s.from; ; i++ {
		n := bytes.IndexByte(d.text[i:], '"')
		if n < 0 {
			return s, len(d.text), false
		}
		s.escaped = s.escaped || bytes.IndexByte(d.text[i:i+n], '\\') >= 0
		i += n
		slashes := 0
		for s.escaped && i-slashes > s.from && d.text[i-slashes-1] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			s.to = i
			return s, i + 1, true
		}
	}
}

// each hands out every text, the item of a list that it is in, and whether it is an assistant's. The text is valid until
// the next one.
func (d *document) each(fn func(text []byte, item int, echo bool)) {
	for i := 1; i < len(d.objects); i++ { // outer ones come first
		d.objects[i].echo = d.objects[i].echo || d.objects[d.objects[i].in].echo
	}
	for _, s := range d.texts {
		fn(d.unescaped(s), s.item, d.objects[s.object].echo)
	}
}

// key names an item of a list within the record of this name. It is valid until the next one.
func (d *document) key(record []byte, item int) []byte {
	d.name = append(d.name[:0], record...)
	end := len(d.name)
	for ; item > 0; item = d.items[item].in { // the innermost one is the last part of the name
		var room [20]byte
		part := strconv.AppendInt(append(room[:0], '.'), int64(d.items[item].n), 10)
		d.name = slices.Insert(d.name, end, part...)
	}
	return d.name
}

// unescaped gives a text as it was before it became JSON. What is no escape stays as it is.
func (d *document) unescaped(s span) []byte {
	text := d.text[s.from:s.to]
	if !s.escaped {
		return text
	}
	d.plain = d.plain[:0]
	for {
		n := bytes.IndexByte(text, '\\')
		if n < 0 || n+1 == len(text) {
			d.plain = append(d.plain, text...)
			return d.plain
		}
		d.plain = append(d.plain, text[:n]...)
		sign := text[n+1]
		rest := text[n+2:]
		switch i := strings.IndexByte(`"\/bfnrt`, sign); {
		case i >= 0:
			d.plain = append(d.plain, "\"\\/\b\f\n\r\t"[i])
		case sign == 'u':
			r := hex4(rest)
			if r < 0 {
				d.plain = append(d.plain, '\\', 'u')
				break
			}
			rest = rest[4:]
			if utf16.IsSurrogate(r) && bytes.HasPrefix(rest, []byte(`\u`)) {
				if both := utf16.DecodeRune(r, hex4(rest[2:])); both != utf8.RuneError {
					r, rest = both, rest[6:]
				}
			}
			d.plain = utf8.AppendRune(d.plain, r)
		default:
			d.plain = append(d.plain, '\\', sign)
		}
		text = rest
	}
}

// hex4 reads four hexadecimal digits; -1 where there are none.
func hex4(text []byte) rune {
	if len(text) < 4 {
		return -1
	}
	r := rune(0)
	for _, b := range text[:4] {
		switch {
		case '0' <= b && b <= '9':
			r = r<<4 | rune(b-'0')
		case 'a' <= b|0x20 && b|0x20 <= 'f':
			r = r<<4 | rune(b|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}

// speakers are the names under which chat histories say who speaks, and voices those who are not the user: the message
// formats of OpenAI, LangChain, Gemini and LlamaIndex.
var (
	speakers = []string{"role", "type", "sender", "author", "speaker"}
	voices   = []string{"assistant", "ai", "aimessagechunk", "bot", "chatbot", "model", "agent", "system", "developer", "tool", "function"}
)

func (d *document) saidByApp(name []byte, who span) bool {
	return slices.Contains(speakers, string(name)) && slices.Contains(voices, strings.ToLower(string(d.unescaped(who))))
}
