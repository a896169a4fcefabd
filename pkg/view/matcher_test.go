package view_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"amnesia/pkg/memory"
	"amnesia/pkg/view"
)

// ticks is a clock that goes on by one with every look at it.
type ticks struct{ ch chan int64 }

func newTicks() ticks {
	t := ticks{make(chan int64, 1)}
	t.ch <- 0
	return t
}

func (t ticks) Now() memory.Instant {
	n := <-t.ch + 1
	t.ch <- n
	return memory.Instant{Mono: n, Wall: n}
}

func mem(id int, user, token string) memory.Memory {
	return memory.Memory{ID: memory.ID(id), User: user, Token: token, Text: "code " + token}
}

// read gives the observations after one reading for each user.
func read(ctx context.Context, ms []memory.Memory, opt view.Options, fn func(context.Context, *view.Reading) error) []memory.Observation {
	opt.View, opt.Clock = "v", newTicks()
	m := view.NewMatcher(ms, opt)
	m.Each(ctx, 2, fn)
	return m.Observations(ctx)
}

// asciiLower is what a text looks like to a search for tokens.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c - 'A' + 'a'
		}
	}
	return string(b)
}

// agrees holds one reading of the texts against the obvious, slow way to find tokens.
func agrees(t interface{ Fatalf(string, ...any) }, tokens, texts []string) {
	var ms []memory.Memory
	for i, token := range tokens {
		ms = append(ms, mem(i+1, "ann", token))
	}
	out := read(context.Background(), ms, view.Options{}, func(_ context.Context, r *view.Reading) error {
		for _, text := range texts {
			r.Record(view.Record{Text: text})
		}
		return nil
	})
	for i, o := range out {
		copies := 0
		for _, text := range texts {
			if strings.Contains(asciiLower(text), tokens[i]) {
				copies++
			}
		}
		if o.Copies != copies || o.State.Here() != (copies > 0) {
			t.Fatalf("token %q in %q: %s with %d copies, want %d", tokens[i], texts, o.State, o.Copies, copies)
		}
	}
}

func TestMatcherProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few letters, so that tokens overlap, hold each other and come twice.
		tokens := rapid.SliceOfN(rapid.StringMatching(`[ab0]{1,5}`), 1, 8).Draw(t, "tokens")
		piece := rapid.OneOf(
			rapid.SampledFrom(tokens),
			rapid.SampledFrom([]string{"A", "B", "0", "aB", "\\n", "%20", "<b>", "</b>", "&amp;", "é", "ı", "K", "我", "👩‍👩‍👧", "\x00", "\xff", "\u0301"}),
			rapid.String(),
		)
		texts := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(piece, 0, 12), func(p []string) string { return strings.Join(p, "") }), 0, 4).Draw(t, "texts")
		agrees(t, tokens, texts)
	})
}

// TestMatcherPropertyOfRuns: the same for tokens as a run has them, of one length and with one beginning, or nearly so.
func TestMatcherPropertyOfRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.SampledFrom([]string{"amn", "0a", "zz", "a7"}).Draw(t, "begin")
		tokens := rapid.SliceOfN(rapid.StringMatching(`[an0]{9,11}`), 1, 8).Draw(t, "tokens")
		for i := range tokens {
			tokens[i] = begin + tokens[i]
		}
		token := rapid.SampledFrom(tokens)
		piece := rapid.OneOf(
			token,
			rapid.Map(token, strings.ToUpper),
			rapid.Map(token, func(s string) string { return s[:len(s)-1] }),
			rapid.Map(token, func(s string) string { return string(s[0]&^0x20) + s[1:] }), // a digit becomes a control character
			rapid.SampledFrom([]string{"a", "m", "amn", "AMN", "amm", "`mn", "\n", "我", "\x00", "\xff", "MN a", "bmo"}),
			rapid.String(),
		)
		texts := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(piece, 0, 12), func(p []string) string { return strings.Join(p, "") }), 0, 4).Draw(t, "texts")
		agrees(t, tokens, texts)
	})
}

func FuzzMatcher(f *testing.F) {
	f.Add("tok1xyz", "tok2xyz", "<b>tok1xyztok2xyz</b>")
	f.Add("a", "aa", "AaA")
	f.Add("k1", "1k", "我k1k👩‍👩‍👧‍👦\\nk1")
	f.Add("amn1aa8hnd23m", "amnvea9kjvqmh", "AMN1AA8HND23Mamnvea9kjvqmh amn")
	f.Add("tok1xyz", "z", strings.Repeat("tok1xy", 50)+"z")
	f.Fuzz(func(t *testing.T, a, b, text string) {
		for _, token := range []string{a, b} {
			if strings.Trim(token, "abcdefghijklmnopqrstuvwxyz0123456789") != "" || token == "" {
				t.Skip("no token") // the fuzzer made up something that the promise is not about
			}
		}
		agrees(t, []string{a, b}, []string{text})
	})
}

// TestHugeText: a text of many megabytes is one pass, whatever the number of tokens.
func TestHugeText(t *testing.T) {
	var ms []memory.Memory
	for i := range 20_000 {
		ms = append(ms, mem(i+1, "ann", fmt.Sprintf("k%08dz", i)))
	}
	text := strings.Repeat("a hex dump deadbeef0123456789 and prose, ", 200_000) + ms[17].Token
	out := read(t.Context(), ms, view.Options{}, func(_ context.Context, r *view.Reading) error {
		r.Record(view.Record{Text: text})
		return nil
	})
	for i, o := range out {
		if o.State.Here() != (i == 17) {
			t.Fatalf("%+v", o)
		}
	}
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		told, found string
		same        bool
	}{
		{"a\nb", "a\r\nb", true},
		{"a\nb", "a\rb", true},
		{"a", "  a\n", true},
		{"a b", "a  b", false},
		{"a\nb", "a b", false},
		{"a", "A", false},
		{"é", "e\u0301", false},
		{"a & b", "a &amp; b", false},
	} {
		if got := view.Same(c.told, c.found); got != c.same {
			t.Errorf("Same(%q, %q) is %t", c.told, c.found, got)
		}
	}
}

// TestRules: whose records count for whom.
func TestRules(t *testing.T) {
	a, b := mem(1, "ann", "tokaxyz"), mem(2, "bob", "tokbxyz")
	type seen struct {
		state     memory.State
		copies    int
		strangers []string
		detail    string
	}
	for _, c := range []struct {
		name string
		opt  view.Options
		read func(r *view.Reading) // for ann and for bob
		want [2]seen
	}{
		{"nothing", view.Options{}, func(*view.Reading) {}, [2]seen{{state: memory.Absent}, {state: memory.Absent}}},
		{"their own", view.Options{}, func(r *view.Reading) {
			r.Record(view.Record{Text: "code tokaxyz"})
			r.Record(view.Record{Text: "code tokbxyz"})
		}, [2]seen{{memory.Present, 1, []string{"bob"}, ""}, {memory.Present, 1, []string{"ann"}, ""}}},
		{"all records for everybody, with owners", view.Options{}, func(r *view.Reading) {
			r.Record(view.Record{Owner: "ann", Text: "code tokaxyz"})
			r.Record(view.Record{Owner: "bob", Text: "code tokbxyz"})
		}, [2]seen{{memory.Present, 1, nil, ""}, {memory.Present, 1, nil, ""}}},
		{"under a user that nobody asked about", view.Options{}, func(r *view.Reading) {
			r.Record(view.Record{Owner: "zoe", Text: "code tokaxyz"})
		}, [2]seen{{memory.Absent, 0, []string{"zoe"}, ""}, {state: memory.Absent}}},
		{"the same record on two pages", view.Options{}, func(r *view.Reading) {
			r.Record(view.Record{Owner: "ann", Key: "1", Text: "code tokaxyz"})
			r.Record(view.Record{Owner: "ann", Key: "1", Text: "code tokaxyz"})
			r.Record(view.Record{Owner: "ann", Key: "2", Text: "tokaxyz"})
		}, [2]seen{{memory.Present, 2, nil, ""}, {state: memory.Absent}}},
		{"one record in several texts", view.Options{}, func(r *view.Reading) {
			r.Record(view.Record{Owner: "ann", Key: "1", Text: "a note on tokaxyz"})
			r.Record(view.Record{Owner: "ann", Key: "1", Text: "code tokaxyz"})
		}, [2]seen{{memory.Present, 1, nil, ""}, {state: memory.Absent}}},
		{"an echo", view.Options{}, func(r *view.Reading) {
			if r.User() == "ann" {
				r.Echo("I know tokaxyz and tokbxyz")
			}
		}, [2]seen{{memory.Absent, 0, nil, "echo"}, {memory.Absent, 0, []string{"ann"}, ""}}},
		{"begun anew", view.Options{}, func(r *view.Reading) {
			r.Record(view.Record{Text: "code tokaxyz"})
			r.Restart()
		}, [2]seen{{memory.Absent, 0, []string{"bob"}, ""}, {state: memory.Absent}}},
		{"two in one text", view.Options{}, func(r *view.Reading) {
			r.Record(view.Record{Owner: "ann", Text: "tokaxyztokbxyz"})
		}, [2]seen{{memory.Altered, 1, nil, ""}, {memory.Absent, 0, []string{"ann"}, ""}}},
		{"by the token", view.Options{Match: view.MatchToken}, func(r *view.Reading) {
			r.Record(view.Record{Owner: "ann", Text: "She said TokAxyz"})
		}, [2]seen{{memory.Present, 1, nil, ""}, {state: memory.Absent}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := read(t.Context(), []memory.Memory{a, b}, c.opt, func(_ context.Context, r *view.Reading) error {
				c.read(r)
				return nil
			})
			for i, o := range out {
				got := seen{o.State, o.Copies, o.Strangers, c.want[i].detail}
				if !reflect.DeepEqual(got, c.want[i]) || !strings.Contains(o.Detail, c.want[i].detail) {
					t.Errorf("%s: %+v (%s), want %+v", o.Memory, got, o.Detail, c.want[i])
				}
			}
		})
	}
}

// TestAll: one reading for all users takes the records' owners, and a record without one is nobody's.
func TestAll(t *testing.T) {
	m := view.NewMatcher([]memory.Memory{mem(1, "ann", "tokaxyz"), mem(2, "bob", "tokbxyz"), mem(3, "ann", "tokcxyz")}, view.Options{View: "v", Clock: newTicks()})
	m.All(t.Context(), func(_ context.Context, r *view.Reading) error {
		r.Record(view.Record{Owner: "ann", Text: "code tokaxyz"})
		r.Record(view.Record{Text: "code tokbxyz"})
		r.Record(view.Record{Owner: "bob", Text: "code tokcxyz"})
		return nil
	})
	out := m.Observations(t.Context())
	if out[0].State != memory.Present || out[1].State != memory.Absent || !strings.Contains(out[1].Detail, "without an owner") || len(out[1].Strangers) > 0 ||
		out[2].State != memory.Absent || !slices.Equal(out[2].Strangers, []string{"bob"}) {
		t.Errorf("%+v", out)
	}
}

// TestEnds: what a read that did not reach its end says of what it has not found.
func TestEnds(t *testing.T) {
	ours := errors.New("ours")
	ms := []memory.Memory{mem(1, "ann", "tokaxyz"), mem(2, "ann", "tokbxyz"), mem(3, "bob", "tokcxyz"), mem(4, "zoe", "NOT A TOKEN")}
	for _, err := range []error{ours, errors.New("theirs")} {
		opt := view.Options{Rig: func(err error) bool { return errors.Is(err, ours) }}
		out := read(t.Context(), ms, opt, func(_ context.Context, r *view.Reading) error {
			if r.User() != "ann" {
				return nil
			}
			r.Record(view.Record{Text: "code tokaxyz"})
			return fmt.Errorf("page 2: %w", err)
		})
		if o := out[0]; o.State != memory.Present || o.Rig || o.Siblings != 1 {
			t.Errorf("found before the end: %+v", o)
		}
		if o := out[1]; o.State != memory.Unreadable || o.Rig != (err == ours) || o.Detail != "page 2: "+err.Error() || o.Siblings != 1 {
			t.Errorf("not found before the end: %+v", o)
		}
		if o := out[2]; o.State != memory.Absent || o.Siblings != 0 {
			t.Errorf("of another user: %+v", o)
		}
		if o := out[3]; o.State != memory.Unreadable || !strings.Contains(o.Detail, "NOT A TOKEN") {
			t.Errorf("without a token: %+v", o)
		}
		for _, o := range out {
			if !o.Began.Before(o.Ended) || o.View != "v" {
				t.Errorf("%+v", o)
			}
		}
	}
}

// TestContext: Each ends with its context even if a read does not, and what comes later changes nothing.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the sweep is over"))
		defer cancel()
		release := make(chan struct{})
		ms := []memory.Memory{mem(1, "ann", "tokaxyz"), mem(2, "bob", "tokbxyz"), mem(3, "eve", "tokcxyz"), mem(4, "zoe", "tokdxyz")}
		began := time.Now()
		out := read(ctx, ms, view.Options{}, func(ctx context.Context, r *view.Reading) error {
			switch r.User() {
			case "ann":
				return nil
			case "bob":
				<-release // deaf
			case "eve":
				<-ctx.Done()
				// As if it had come to its end.
			}
			r.Record(view.Record{Text: "code tokbxyz"})
			return nil
		})
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %s", took)
		}
		if out[0].State != memory.Absent {
			t.Errorf("read in time: %+v", out[0])
		}
		for _, o := range out[1:] {
			if o.State != memory.Unreadable || !o.Rig || !strings.Contains(o.Detail, "the sweep is over") {
				t.Errorf("not read in time: %+v", o)
			}
		}
		close(release)
		synctest.Wait()
	})
}

func BenchmarkMatcher(b *testing.B) {
	var ms []memory.Memory
	for i := range 100_000 {
		ms = append(ms, memory.Memory{ID: memory.ID(i + 1), User: fmt.Sprintf("u%d", i%1000), Token: fmt.Sprintf("k%08dz", i), Text: fmt.Sprintf("My locker code is k%08dz, please remember it.", i)})
	}
	for b.Loop() {
		m := view.NewMatcher(ms, view.Options{View: "v", Clock: newTicks()})
		m.All(context.Background(), func(_ context.Context, r *view.Reading) error {
			for i := range ms {
				r.Record(view.Record{Owner: ms[i].User, Text: ms[i].Text})
			}
			return nil
		})
		if out := m.Observations(context.Background()); out[99_999].State != memory.Present {
			b.Fatal(out[99_999])
		}
	}
}

// TestBatches: one read for several users, each of which may end in its own way.
func TestBatches(t *testing.T) {
	theirs := errors.New("wrong type")
	ms := []memory.Memory{mem(1, "ann", "tokaxyz"), mem(2, "bob", "tokbxyz"), mem(3, "eve", "tokcxyz"), mem(4, "zoe", "tokdxyz")}
	m := view.NewMatcher(ms, view.Options{View: "v", Clock: newTicks()})
	m.Batches(t.Context(), 1, 3, func(_ context.Context, rs []*view.Reading) error {
		if rs[0].User() == "zoe" {
			return errors.New("the connection was cut")
		}
		if len(rs) != 3 {
			t.Errorf("%d readings at once, want 3", len(rs))
		}
		rs[0].Record(view.Record{Text: "code tokaxyz"})
		rs[1].End(theirs)
		rs[2].Note("a list of 7")
		return nil
	})
	var got []string
	for _, o := range m.Observations(t.Context()) {
		got = append(got, string(o.State)+" "+o.Detail)
	}
	want := []string{"present ", "unreadable wrong type", "absent a list of 7", "unreadable the connection was cut"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTTL: of several copies the one that stays longest counts.
func TestTTL(t *testing.T) {
	for _, c := range []struct {
		ttls []int64
		want int64
	}{{nil, 0}, {[]int64{5, 7, 6}, 7}, {[]int64{5, -1, 6}, -1}, {[]int64{0}, 0}} {
		out := read(t.Context(), []memory.Memory{mem(1, "ann", "tokaxyz")}, view.Options{}, func(_ context.Context, r *view.Reading) error {
			for _, ttl := range c.ttls {
				r.Record(view.Record{Text: "code tokaxyz", TTL: ttl})
			}
			return nil
		})
		if out[0].TTL != c.want {
			t.Errorf("of %v it keeps %d, want %d", c.ttls, out[0].TTL, c.want)
		}
	}
}
