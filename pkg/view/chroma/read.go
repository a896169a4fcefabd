package chroma

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	api "github.com/amikos-tech/chroma-go/pkg/api/v2"
	"github.com/amikos-tech/chroma-go/pkg/embeddings"

	"amnesia/pkg/view"
)

// sweep is one Find.
type sweep struct {
	*View

	mu      sync.Mutex
	found   api.Collection
	records int
	empty   []*view.Reading // of users who have no record
}

// record is one record of a collection.
type record struct {
	id        api.DocumentID
	user      string
	text      string
	embedding embeddings.Embedding
}

// read reads what the collection holds for some users.
func (s *sweep) read(ctx context.Context, rs []*view.Reading) error {
	c, err := s.collection(ctx)
	if err != nil {
		return err
	}
	const most = 10
	for range most {
		moved, err := s.list(ctx, c, rs)
		if err != nil || !moved {
			return s.explain(ctx, err)
		}
		for _, r := range rs {
			r.Restart()
		}
	}
	return s.explain(ctx, &contentError{fmt.Sprintf("the collection changed under each of %d reads", most)})
}

// list reads the users' records page by page. Their places move when others are deleted, so each page begins with the
// last record of the one before it: when that is another one now, moved is true and nothing that was found counts.
func (s *sweep) list(ctx context.Context, c api.Collection, rs []*view.Reading) (moved bool, err error) {
	by := make(map[string]*view.Reading, len(rs))
	for _, r := range rs {
		by[r.User()] = r
	}
	where := api.InString(api.K(s.cfg.User), slices.Sorted(maps.Keys(by))...)
	counts := make(map[*view.Reading]int, len(rs))
	first := make(map[*view.Reading]string, len(rs))
	var known []record // that Query looks for
	var last api.DocumentID
	for n := 0; ; {
		page, err := s.get(ctx, c, where, max(0, n-1))
		if err != nil {
			return false, err
		}
		full := len(page) == s.cfg.Page
		if n > 0 {
			if len(page) == 0 || page[0].id != last {
				return true, nil
			}
			page = page[1:]
		}
		for _, rec := range page {
			r := by[rec.user]
			if r == nil {
				return false, &contentError{fmt.Sprintf("it gave a record of the user %q, which was not asked for", rec.user)}
			}
			if counts[r]++; counts[r] == 1 {
				first[r] = rec.text
			}
			last = rec.id
			switch {
			case !s.cfg.Query:
				r.Record(view.Record{Key: string(rec.id), Text: rec.text})
			case r.Mentions(rec.text):
				known = append(known, rec)
			}
		}
		if n += len(page); !full {
			break
		}
	}
	missed := 0
	if s.cfg.Query {
		if missed, err = s.search(ctx, c, rs[0], known, counts[rs[0]]); err != nil {
			return false, err
		}
	}
	s.note(rs, counts, first, missed)
	return false, nil
}

// get reads one page.
func (s *sweep) get(ctx context.Context, c api.Collection, where api.WhereClause, offset int) ([]record, error) {
	ctx, cancel := s.request(ctx)
	defer cancel()
	include := []api.Include{api.IncludeDocuments, api.IncludeMetadatas}
	if s.cfg.Query {
		include = append(include, api.IncludeEmbeddings)
	}
	got, err := c.Get(ctx, api.WithWhere(where), api.WithLimit(s.cfg.Page), api.WithOffset(offset), api.WithInclude(include...))
	if err != nil {
		return nil, s.cause(ctx, err)
	}
	ids, texts, metadatas, vectors := got.GetIDs(), got.GetDocuments(), got.GetMetadatas(), got.GetEmbeddings()
	if ids == nil || len(texts) != len(ids) || len(metadatas) != len(ids) || s.cfg.Query && len(vectors) != len(ids) {
		return nil, &contentError{"the response is no list of records"}
	}
	out := make([]record, len(ids))
	for i, id := range ids {
		out[i] = record{id: id, text: texts[i].ContentString()}
		if metadatas[i] != nil {
			out[i].user, _ = metadatas[i].GetString(s.cfg.User)
		}
		if s.cfg.Query {
			out[i].embedding = vectors[i]
		}
	}
	return out, nil
}

// cause names the deadline instead of what it did to the connection.
func (s *sweep) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// search looks for each record with its own embedding, among those of the user, and counts those that it does not find. The index is approximate: a miss counts
// only when it happens again with as many results as the user has records.
func (s *sweep) search(ctx context.Context, c api.Collection, r *view.Reading, left []record, all int) (missed int, err error) {
	const few, most, chunk = 10, 10_000, 50
	where := api.EqString(api.K(s.cfg.User), r.User())
	for n := min(few, all); len(left) > 0; n = min(n*few, all, most) {
		var again []record
		for some := range slices.Chunk(left, chunk) {
			hits, err := s.query(ctx, c, where, some, n)
			if err != nil {
				return 0, err
			}
			for i, rec := range some {
				if slices.Contains(hits[i], rec.id) {
					r.Record(view.Record{Key: string(rec.id), Text: rec.text})
				} else {
					again = append(again, rec)
				}
			}
		}
		if left = again; n == min(all, most) {
			break
		}
	}
	return len(left), nil
}

// query gives the ids that are nearest to each of some records.
func (s *sweep) query(ctx context.Context, c api.Collection, where api.WhereClause, some []record, n int) ([]api.DocumentIDs, error) {
	ctx, cancel := s.request(ctx)
	defer cancel()
	vectors := make([]embeddings.Embedding, len(some))
	for i, rec := range some {
		vectors[i] = rec.embedding
	}
	got, err := c.Query(ctx, api.WithQueryEmbeddings(vectors...), api.WithNResults(n), api.WithWhere(where), api.WithInclude(api.IncludeDistances))
	if err != nil {
		return nil, s.cause(ctx, err)
	}
	hits := got.GetIDGroups()
	if len(hits) != len(some) {
		return nil, &contentError{fmt.Sprintf("it gave %d results for %d searches", len(hits), len(some))}
	}
	return hits, nil
}

// note says what there is instead of what is missing.
func (s *sweep) note(rs []*view.Reading, counts map[*view.Reading]int, first map[*view.Reading]string, missed int) {
	const most = 80 // bytes of the first that help a person
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rs {
		n := counts[r]
		if s.records += n; n == 0 {
			s.empty = append(s.empty, r)
		} else if r.Missing() > 0 {
			found := ""
			if missed > 0 {
				found = fmt.Sprintf("; get gives %d of them that query does not find", missed)
			}
			r.Note(fmt.Sprintf("the collection %s has %d records with %s = %s, the first: %q%s", s.cfg.Collection, n, s.cfg.User, r.User(),
				first[r][:min(most, len(first[r]))], found))
		}
	}
}

// instead says what there is where no user has a record: a user's field of another name shows in the metadata.
func (s *sweep) instead(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := ""
	if len(s.empty) > 0 && s.records == 0 && ctx.Err() == nil {
		there = s.sample(ctx)
	}
	for _, r := range s.empty {
		r.Note(fmt.Sprintf("the collection %s has no record with %s = %s%s", s.cfg.Collection, s.cfg.User, r.User(), there))
	}
}

// sample names the metadata's fields of one record, and never what is in them; empty when it cannot be asked.
func (s *sweep) sample(ctx context.Context) string {
	ctx, cancel := s.request(ctx)
	defer cancel()
	n, err := s.found.Count(ctx)
	if err != nil {
		return ""
	}
	there := fmt.Sprintf("; it has %d records", n)
	got, err := s.found.Get(ctx, api.WithLimit(1), api.WithInclude(api.IncludeMetadatas))
	if err != nil || len(got.GetMetadatas()) == 0 {
		return there
	}
	if m, ok := got.GetMetadatas()[0].(interface{ Keys() []string }); ok {
		keys := m.Keys()
		slices.Sort(keys)
		there += ", of which the first has the metadata " + strings.Join(keys, ", ")
	}
	return there
}
