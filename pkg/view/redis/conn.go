package redis

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// conn is one connection. It speaks the second version of Redis's protocol
// (https://redis.io/docs/latest/develop/reference/protocol-spec/), and of that only what reading needs, so that records
// are looked at where they arrived: a client that makes a string of each takes several times as long.
//
// It is for one goroutine. After an error that is no replyError it is of no more use.
type conn struct {
	net.Conn
	timeout time.Duration // of one exchange
	out     []byte        // commands that were not sent yet
	in      *bufio.Reader
	looked  int          // bytes of in that were handed out
	long    bytes.Buffer // a text that in has no room for
	release func() bool  // from its context
}

// replyError is an error that Redis gives; the connection is well.
type replyError string

func (e replyError) Error() string { return string(e) }

// says reports whether an error of Redis begins with a code.
func says(err error, code string) bool {
	var reply replyError
	return errors.As(err, &reply) && strings.HasPrefix(strings.TrimPrefix(string(reply), "ERR "), code)
}

var errGarbled = errors.New("the answer is none of Redis's")

// dial opens a connection that ends with ctx.
func dial(ctx context.Context, opts *redis.Options, timeout time.Duration) (*conn, error) {
	raw, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, opts.Network, opts.Addr)
	if err != nil {
		return nil, err
	}
	if opts.TLSConfig != nil {
		raw = tls.Client(raw, opts.TLSConfig) // shakes hands at the first use
	}
	const room = 64 << 10
	c := &conn{Conn: raw, timeout: timeout, in: bufio.NewReaderSize(raw, room)}
	c.release = context.AfterFunc(ctx, func() { raw.Close() })
	var greetings [][]string
	if opts.Password != "" {
		if opts.Username != "" {
			greetings = append(greetings, []string{"AUTH", opts.Username, opts.Password})
		} else {
			greetings = append(greetings, []string{"AUTH", opts.Password})
		}
	}
	if opts.DB != 0 {
		greetings = append(greetings, []string{"SELECT", strconv.Itoa(opts.DB)})
	}
	for _, g := range greetings {
		c.ask(g...)
	}
	err = c.send()
	for range greetings {
		if err == nil {
			_, err = c.line('+')
		}
	}
	if err != nil {
		c.hangUp()
		return nil, err
	}
	return c, nil
}

func (c *conn) hangUp() {
	c.release()
	_ = c.Close() // nothing was written that could be lost
}

// ask writes a command, which goes out with the next send.
func (c *conn) ask(words ...string) {
	c.out = append(strconv.AppendInt(append(c.out, '*'), int64(len(words)), 10), "\r\n"...)
	for _, word := range words {
		c.out = append(strconv.AppendInt(append(c.out, '$'), int64(len(word)), 10), "\r\n"...)
		c.out = append(append(c.out, word...), "\r\n"...)
	}
}

// send begins an exchange: what was asked goes out, and the answers have as long as one may take.
func (c *conn) send() error {
	if err := c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return err
	}
	_, err := c.Write(c.out)
	c.out = c.out[:0]
	return err
}

// line reads the first line of an answer, which must be of this kind, without the sign of its kind. It is valid until
// the next read.
func (c *conn) line(kind byte) ([]byte, error) {
	_, _ = c.in.Discard(c.looked) // they are there
	c.looked = 0
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.ErrUnexpectedEOF
	case errors.Is(err, bufio.ErrBufferFull) || err == nil && (len(line) < 3 || line[len(line)-2] != '\r'):
		return nil, errGarbled
	case err != nil:
		return nil, err
	}
	rest := line[1 : len(line)-2]
	switch line[0] {
	case kind:
		return rest, nil
	case '-':
		return nil, replyError(rest)
	}
	return nil, errGarbled
}

// number reads an answer that is one (:), or the length of a text ($) or a list (*).
func (c *conn) number(kind byte) (int, error) {
	line, err := c.line(kind)
	if err != nil {
		return 0, err
	}
	const most = 18 // digits that an int holds
	digits, negative := bytes.CutPrefix(line, []byte{'-'})
	if len(digits) == 0 || len(digits) > most {
		return 0, errGarbled
	}
	n := 0
	for _, b := range digits {
		if b < '0' || b > '9' {
			return 0, errGarbled
		}
		n = n*10 + int(b-'0')
	}
	if negative {
		n = -n
	}
	return n, nil
}

// list reads the length of a list, whose items follow.
func (c *conn) list() (int, error) {
	n, err := c.number('*')
	if err == nil && n < 0 {
		err = errGarbled
	}
	return n, err
}

// text reads a text. It is valid until the next read.
func (c *conn) text() ([]byte, error) {
	n, err := c.number('$')
	if err != nil {
		return nil, err
	}
	const end = 2 // bytes of \r\n
	if n < 0 {
		return nil, errGarbled
	}
	if n+end > c.in.Size() {
		c.long.Reset()
		if _, err := io.CopyN(&c.long, c.in, int64(n+end)); err != nil {
			return nil, cut(err)
		}
		return ended(c.long.Bytes())
	}
	text, err := c.in.Peek(n + end)
	if err != nil {
		return nil, cut(err)
	}
	c.looked = n + end
	return ended(text)
}

// ended takes off the end of a text.
func ended(text []byte) ([]byte, error) {
	text, ok := bytes.CutSuffix(text, []byte("\r\n"))
	if !ok {
		return nil, errGarbled
	}
	return text, nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// texts hands out the items of a list of texts.
func (c *conn) texts(fn func(i, of int, text []byte)) error {
	n, err := c.list()
	for i := range n {
		text, err := c.text()
		if err != nil {
			return within(err)
		}
		fn(i, n, text)
	}
	return err
}

// within is the error of a part of an answer, where Redis gives none: then it is no replyError.
func within(err error) error {
	var reply replyError
	if err == nil || errors.As(err, &reply) {
		return errGarbled
	}
	return err
}
