package redis

import (
	"strconv"

	"amnesia/pkg/view"
)

// look takes one text that a key holds. What reads as a JSON object, list or string is looked through: all texts in it
// are one record, but for those of the items of lists, which are one each. Texts with the same key are one record;
// without one each text is a record.
func (x *exchanges) look(c *cursor, key, text []byte) {
	c.note(text)
	if c.Reading == nil { // it is read over
		return
	}
	if len(text) > 0 && (text[0] == '{' || text[0] == '[' || text[0] == '"') && x.doc.parse(text) {
		if len(key) == 0 {
			x.nth = strconv.AppendInt(x.nth[:0], int64(c.read), 10)
			key = x.nth
		}
		x.give(c, key)
		return
	}
	c.RecordBytes(view.Bytes{Key: key, Text: text, TTL: c.ttl})
}

// give gives every text of the document. What an assistant says is an echo.
func (x *exchanges) give(c *cursor, key []byte) {
	if c.Reading == nil {
		return
	}
	x.doc.each(func(text []byte, item int, echo bool) {
		if echo {
			c.EchoBytes(text)
			return
		}
		c.RecordBytes(view.Bytes{Key: x.doc.key(key, item), Text: text, TTL: c.ttl})
	})
}
