package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// said gives a connection to something that says this, whatever it is asked, and hangs up.
func said(t *testing.T, answer string) *conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		if far, err := l.Accept(); err == nil {
			_, _ = io.WriteString(far, answer)
			far.Close()
		}
	}()
	c, err := dial(context.Background(), &redis.Options{Network: "tcp", Addr: l.Addr().String()}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.hangUp)
	return c
}

// TestTexts: a list of texts is read as it was sent, whatever is in them and however long they are, and anything else is
// an error.
func TestTexts(t *testing.T) {
	long := strings.Repeat("long ", 40_000)
	for _, c := range []struct {
		answer string
		want   []string
		err    error
	}{
		{"*2\r\n$3\r\na\r\n\r\n$0\r\n\r\n", []string{"a\r\n", ""}, nil},
		{"*2\r\n$200000\r\n" + long + "\r\n$1\r\nb\r\n", []string{long, "b"}, nil},
		{"*0\r\n", nil, nil},
		{"-NOPERM no\r\n", nil, replyError("NOPERM no")},
		{"*1\r\n-ERR within\r\n", nil, errGarbled},
		{"*-1\r\n", nil, errGarbled},
		{"*1\r\n$-1\r\n", nil, errGarbled},
		{"*1\r\n:1\r\n", nil, errGarbled},
		{"$1\r\na\r\n", nil, errGarbled},
		{"*x\r\n", nil, errGarbled},
		{"*9999999999999999999\r\n", nil, errGarbled},
		{"*1\n", nil, errGarbled},
		{strings.Repeat("*", 100_000), nil, errGarbled},
		{"*1\r\n$1\r\nabcd", nil, errGarbled},
		{"", nil, io.ErrUnexpectedEOF},
		{"*1\r\n", nil, io.ErrUnexpectedEOF},
		{"*1\r\n$5\r\nabc", nil, io.ErrUnexpectedEOF},
		{"*1\r\n$500000\r\nabc", nil, io.ErrUnexpectedEOF},
		{"*1\r\n$999999999999\r\nabc", nil, io.ErrUnexpectedEOF},
	} {
		var got []string
		err := said(t, c.answer).texts(func(_, _ int, text []byte) { got = append(got, string(text)) })
		if !errors.Is(err, c.err) || c.err == nil && strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("%.30q gives %d texts, %v, want %d, %v", c.answer, len(got), err, len(c.want), c.err)
		}
	}
}
