package chroma_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	api "github.com/amikos-tech/chroma-go/pkg/api/v2"
	"github.com/amikos-tech/chroma-go/pkg/embeddings"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/view"
	"amnesia/pkg/view/chroma"
	"amnesia/pkg/view/viewtest"
)

// store is one collection of a real server, seen by the view through a proxy.
type store struct {
	*server
	*viewtest.Proxy
	app   api.Collection
	query bool
	n     int
	// stored are the memories of the last Put.
	stored []memory.Memory
}

func newStore(t testing.TB, query bool) *store {
	s := theServer(t)
	return &store{server: s, Proxy: viewtest.NewProxy(t, s.Addr), app: s.collection(t), query: query}
}

func (s *store) config() chroma.Config {
	return chroma.Config{Name: "chroma", URL: "http://" + s.Proxy.Addr().String(), Collection: s.app.Name(), User: "user_id",
		Query: s.query, Page: 50, Clock: clock.System()}
}

func (s *store) Open(t *testing.T) view.View { return open(t, s.config()) }

func open(t testing.TB, cfg chroma.Config) view.View {
	t.Helper()
	v, err := chroma.New(cfg)
	check(t, err)
	return v
}

// embed is a model of language that a test can do without: the same text gives the same place, another another.
func embed(text string) embeddings.Embedding {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	rnd := rand.New(rand.NewPCG(h.Sum64(), 0))
	v := make([]float32, 16)
	for i := range v {
		v[i] = float32(rnd.NormFloat64())
	}
	return embeddings.NewEmbeddingFromFloat32(v)
}

// put stores texts, as many in one request as Chroma takes.
func (s *store) put(t testing.TB, users, texts []string) {
	const most = 1000
	for from := 0; from < len(texts); from += most {
		to := min(from+most, len(texts))
		var (
			ids     []api.DocumentID
			vectors []embeddings.Embedding
			metas   []api.DocumentMetadata
		)
		for i := from; i < to; i++ {
			s.n++
			ids = append(ids, api.DocumentID(fmt.Sprintf("id-%d", s.n)))
			vectors = append(vectors, embed(texts[i]))
			metas = append(metas, api.NewDocumentMetadata(api.NewStringAttribute("user_id", users[i]), api.NewIntAttribute("n", int64(s.n))))
		}
		check(t, s.app.Add(context.Background(), api.WithIDs(ids...), api.WithTexts(texts[from:to]...), api.WithEmbeddings(vectors...), api.WithMetadatas(metas...)))
	}
}

// token matches those of the suite.
var token = regexp.MustCompile(`k[0-9]{6}[0-9a-f]{4}`)

func (s *store) Put(t *testing.T, user string, texts ...string) {
	users := make([]string, len(texts))
	s.stored = nil
	for i, text := range texts {
		users[i] = user
		s.stored = append(s.stored, memory.Memory{ID: memory.ID(i + 1), User: user, Text: text, Token: token.FindString(text)})
	}
	s.put(t, users, texts)
}

func (s *store) Delete(t *testing.T, user, text string) {
	got, err := s.app.Get(t.Context(), api.WithWhere(api.EqString(api.K("user_id"), user)), api.WithInclude(api.IncludeDocuments))
	check(t, err)
	for i, doc := range got.GetDocuments() {
		if doc.ContentString() == text {
			check(t, s.app.Delete(t.Context(), api.WithIDs(got.GetIDs()[i])))
		}
	}
}

func (s *store) Break(t *testing.T, how viewtest.Trouble) (mend func()) {
	name := s.app.Name()
	switch how {
	case viewtest.Hang:
		return viewtest.Freeze(t, s.Server)
	case viewtest.Refuse:
		s.Kill()
		return func() { check(t, s.Start()) }
	case viewtest.Vanish:
		check(t, s.app.ModifyName(t.Context(), "gone-"+name))
		return func() { check(t, s.app.ModifyName(t.Context(), name)) }
	case viewtest.Garbage:
		s.Garble()
	case viewtest.Cut:
		s.Mend()
		find(t, s.Open(t), s.stored)
		part := int64(60)
		if s.query { // the searches come after the list
			part = 90
		}
		s.Cut(s.Said() * part / 100)
	default:
		t.Fatalf("cannot break by %s", how)
	}
	return s.Mend
}

func find(t *testing.T, v view.View, ms []memory.Memory) []memory.Observation {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	out, err := v.Find(ctx, ms)
	check(t, err)
	return out
}

func TestConformance(t *testing.T) {
	theServer(t)
	for name, query := range map[string]bool{"get": false, "query": true} {
		t.Run(name, func(t *testing.T) {
			viewtest.Run(t, viewtest.Harness{
				New:      func(t *testing.T) viewtest.Store { return newStore(t, query) },
				Troubles: []viewtest.Trouble{viewtest.Hang, viewtest.Refuse, viewtest.Vanish, viewtest.Garbage, viewtest.Cut},
			})
		})
	}
}

var ann = []memory.Memory{
	{ID: 1, User: "ann", Token: "tok1xyz", Text: "code tok1xyz"},
	{ID: 2, User: "ann", Token: "tok2xyz", Text: "code tok2xyz"},
}

// TestInstead: of what is not there, it says what is there instead.
func TestInstead(t *testing.T) {
	s := newStore(t, false)
	name := s.app.Name()
	says := func(o memory.Observation, state memory.State, want ...string) {
		t.Helper()
		for _, w := range want {
			if o.State != state || !strings.Contains(o.Detail, w) {
				t.Errorf("%s: %q, want %s with %q", o.State, o.Detail, state, w)
			}
		}
	}
	says(find(t, s.Open(t), ann)[0], memory.Absent, "the collection "+name+" has no record with user_id = ann; it has 0 records")
	s.Put(t, "Ann", ann[0].Text)
	says(find(t, s.Open(t), ann)[0], memory.Absent, "it has 1 records, of which the first has the metadata n, user_id")
	s.Put(t, "ann", ann[1].Text)
	says(find(t, s.Open(t), ann)[0], memory.Absent, "has 1 records with user_id = ann, the first: \"code tok2xyz\"")
	for _, c := range []struct {
		change func(*chroma.Config)
		want   []string
	}{
		{func(c *chroma.Config) { c.Collection = "nowhere" }, []string{"there is no collection nowhere", "which has: memories", "fix: check the view's collection"}},
		{func(c *chroma.Config) { c.Tenant = "nobody" }, []string{"of the tenant nobody", "fix: check the view's collection, database and tenant"}},
		{func(c *chroma.Config) { c.Database = "none" }, []string{"in the database none", "fix: check the view's collection, database and tenant"}},
	} {
		cfg := s.config()
		c.change(&cfg)
		o := find(t, open(t, cfg), ann)[0]
		says(o, memory.Unreadable, c.want...)
		if o.Rig {
			t.Errorf("%+v is no trouble of ours", o)
		}
	}
}

// TestTenants: it reads the tenant and the database that it is given, and sends its headers.
func TestTenants(t *testing.T) {
	s := theServer(t)
	admin, err := api.NewHTTPClient(api.WithBaseURL("http://" + s.Addr))
	check(t, err)
	defer admin.Close()
	acme := fmt.Sprintf("acme-%d", time.Now().UnixNano()) // the server outlives the test, which may be run again
	tenant, err := admin.CreateTenant(t.Context(), api.NewTenant(acme))
	check(t, err)
	_, err = admin.CreateDatabase(t.Context(), tenant.Database("chat"))
	check(t, err)
	st := &store{server: s, Proxy: viewtest.NewProxy(t, s.Addr), app: s.collection(t, api.WithDatabaseAndTenant("chat", acme))}
	st.Put(t, "ann", ann[0].Text)
	cfg := st.config()
	cfg.Tenant, cfg.Database, cfg.Headers = acme, "chat", map[string]string{"X-Chroma-Token": "hunter2"}
	out := find(t, open(t, cfg), ann)
	if out[0].State != memory.Present || out[1].State != memory.Absent {
		t.Errorf("%+v", out)
	}
}

// TestSettings: what New refuses.
func TestSettings(t *testing.T) {
	for want, cfg := range map[string]chroma.Config{
		"url: it is no address": {URL: "127.0.0.1:8000", Collection: "c", User: "u"},
		"collection: missing":   {URL: "http://127.0.0.1:8000", User: "u"},
		"match.user: missing":   {URL: "http://127.0.0.1:8000", Collection: "c"},
	} {
		if _, err := chroma.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
		}
	}
}

// TestTimeout: a server that does not answer is our trouble, and the reason is named.
func TestTimeout(t *testing.T) {
	s := newStore(t, false)
	cfg := s.config()
	cfg.Timeout = 100 * time.Millisecond
	v := open(t, cfg)
	defer viewtest.Freeze(t, s.Server)()
	for _, o := range find(t, v, ann) {
		if o.State != memory.Unreadable || !o.Rig || !strings.Contains(o.Detail, "no whole response within 100ms") {
			t.Errorf("%+v", o)
		}
	}
}

// TestSharedPlace: records that a search cannot tell apart by place are all found, since a miss is asked again for more.
func TestSharedPlace(t *testing.T) {
	s := newStore(t, true)
	ms := viewtest.Memories(1, 1, 60)
	var ids []api.DocumentID
	var texts []string
	var vectors []embeddings.Embedding
	var metas []api.DocumentMetadata
	for i, m := range ms {
		ids, texts = append(ids, api.DocumentID(fmt.Sprint("same-", i))), append(texts, m.Text)
		vectors = append(vectors, embed("all of them"))
		metas = append(metas, api.NewDocumentMetadata(api.NewStringAttribute("user_id", m.User)))
	}
	check(t, s.app.Add(t.Context(), api.WithIDs(ids...), api.WithTexts(texts...), api.WithEmbeddings(vectors...), api.WithMetadatas(metas...)))
	for _, o := range find(t, s.Open(t), ms) {
		if o.State != memory.Present || o.Copies != 1 {
			t.Errorf("%+v", o)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	s := newStore(b, false)
	ms := viewtest.Memories(1, 1000, 100)
	users, texts := make([]string, len(ms)), make([]string, len(ms))
	for i, m := range ms {
		users[i], texts[i] = m.User, m.Text
	}
	s.put(b, users, texts)
	// The raw client's bulk read of the same ids.
	b.Run("raw", func(b *testing.B) {
		for b.Loop() {
			const most = 1000
			for from := 0; from < len(ms); from += most {
				ids := make([]api.DocumentID, most)
				for i := range ids {
					ids[i] = api.DocumentID(fmt.Sprintf("id-%d", from+i+1))
				}
				got, err := s.app.Get(context.Background(), api.WithIDs(ids...), api.WithInclude(api.IncludeDocuments, api.IncludeMetadatas))
				check(b, err)
				if got.Count() != most {
					b.Fatalf("%d records", got.Count())
				}
			}
		}
	})
	b.Run("view", func(b *testing.B) {
		cfg := s.config()
		cfg.URL, cfg.Page = "http://"+s.server.Addr, 0
		v := open(b, cfg)
		for b.Loop() {
			out, err := v.Find(context.Background(), ms)
			if err != nil || out[0].State != memory.Present || out[len(out)-1].State != memory.Present {
				b.Fatalf("%v, %v", out[len(out)-1], err)
			}
		}
	})
}
