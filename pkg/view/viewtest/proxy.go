package viewtest

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a view and a real server, and can spoil what the server says.
type Proxy struct {
	net.Listener
	to  string
	all sync.WaitGroup

	mu      sync.Mutex
	said    int64 // bytes that the server said since the last change
	most    int64 // after which connections are cut; negative: never
	garbage bool
	slow    time.Duration // before each thing that the server says gets through
	mended  chan struct{} // closed by the next change: until then nothing gets through; nil: it does
	conns   []net.Conn
	closed  bool
}

// NewProxy is OpenProxy for a test, with which it ends.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	p, err := OpenProxy(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() }) // whatever it says, it is closed
	return p
}

// OpenProxy starts one before the address, host:port or the path of a Unix socket.
func OpenProxy(to string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Listener: l, to: to, most: -1}
	p.all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.serve(near) })
		}
	})
	return p, nil
}

// Close ends it, and all that goes through it.
func (p *Proxy) Close() error {
	err := p.Listener.Close()
	p.Mend()
	p.mu.Lock()
	p.closed = true
	for _, c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.all.Wait()
	return err
}

func (p *Proxy) serve(near net.Conn) {
	defer near.Close()
	network := "tcp"
	if strings.HasPrefix(p.to, "/") {
		network = "unix"
	}
	far, err := net.Dial(network, p.to)
	if err != nil {
		return
	}
	defer far.Close()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.conns = append(p.conns, near, far)
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(far, near)
		far.Close()
	}()
	_, _ = io.Copy(writer(func(b []byte) (int, error) {
		b, cut := p.pass(b)
		n, err := near.Write(b)
		return n, errors.Join(err, cut)
	}), far)
}

// pass gives what gets through of something that the server said.
func (p *Proxy) pass(b []byte) ([]byte, error) {
	p.mu.Lock()
	for p.mended != nil || p.slow > 0 {
		mended, slow := p.mended, p.slow
		p.mu.Unlock()
		if mended != nil {
			<-mended
		} else {
			time.Sleep(slow)
		}
		p.mu.Lock()
		if mended == nil {
			break
		}
	}
	defer p.mu.Unlock()
	if p.garbage {
		return []byte("\x00\x01 no protocol of this world \r\n\r\n"), io.ErrClosedPipe
	}
	if p.said += int64(len(b)); p.most >= 0 && p.said > p.most {
		return b[:max(0, int64(len(b))-(p.said-p.most))], io.ErrClosedPipe
	}
	return b, nil
}

// Said gives the bytes that the server said since the last change.
func (p *Proxy) Said() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said
}

// Cut cuts every connection when the server has said so many bytes more, at once when that is none; each later one at once.
func (p *Proxy) Cut(after int64) { p.set(after, false) }

// Garble answers with garbage in the server's place, and hangs up.
func (p *Proxy) Garble() { p.set(-1, true) }

// Hang accepts connections and what clients say, and lets nothing of what the server says through.
func (p *Proxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mended == nil {
		p.mended = make(chan struct{})
	}
}

// Slow lets everything through, so much later.
func (p *Proxy) Slow(by time.Duration) {
	p.set(-1, false)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slow = by
}

// Mend lets everything through.
func (p *Proxy) Mend() { p.set(-1, false) }

func (p *Proxy) set(most int64, garbage bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said, p.most, p.garbage, p.slow = 0, most, garbage, 0
	if p.mended != nil {
		close(p.mended)
		p.mended = nil
	}
	if most == 0 {
		for _, c := range p.conns {
			c.Close()
		}
		p.conns = nil
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
