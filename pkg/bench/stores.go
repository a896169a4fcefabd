package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	api "github.com/amikos-tech/chroma-go/pkg/api/v2"
	"github.com/amikos-tech/chroma-go/pkg/embeddings"
	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/view"
	"amnesia/pkg/view/chroma"
	"amnesia/pkg/view/postgres"
	"amnesia/pkg/view/redis"
)

// The stores hold what the sample application keeps in them.

// record is a memory's other parts in the sample application.
type record struct {
	ID      string    `json:"id"`
	User    string    `json:"user_id"`
	Text    string    `json:"content"`
	Summary string    `json:"summary"`
	At      time.Time `json:"created_at"`
}

func recordOf(m memory.Memory) record {
	const most = 120
	summary := []rune(m.Text)
	at := time.Unix(1_800_000_000, int64(m.ID)*1_000_003).UTC()
	return record{fmt.Sprintf("%016x", at.UnixNano()), m.User, m.Text, string(summary[:min(most, len(summary))]), at}
}

func usersOf(ms []memory.Memory) []string {
	var users []string
	for _, m := range ms {
		if len(users) == 0 || users[len(users)-1] != m.User {
			users = append(users, m.User)
		}
	}
	return users
}

func inRedis() kept {
	const key = "chat:memory:"
	const exchange = 25 // users: some hundred KB of answers; of much more, the server is busy with room for them
	open := func(url string) (*goredis.Client, error) {
		opts, err := goredis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		return goredis.NewClient(opts), nil
	}
	return kept{
		fill: func(ctx context.Context, url string, ms []memory.Memory) error {
			client, err := open(url)
			if err != nil {
				return err
			}
			defer client.Close()
			for some := range slices.Chunk(ms, 1000) {
				pipe := client.Pipeline()
				for _, m := range some {
					value, err := json.Marshal(recordOf(m))
					if err != nil {
						return err
					}
					pipe.RPush(ctx, key+m.User, value)
				}
				if _, err := pipe.Exec(ctx); err != nil {
					return err
				}
			}
			return nil
		},
		view: func(url string) (view.View, error) {
			return redis.New(redis.Config{Name: "redis", URL: url, Key: key + "{user}", Clock: clock.System()})
		},
		raw: func(ctx context.Context, url string, ms []memory.Memory) (int, error) {
			client, err := open(url)
			if err != nil {
				return 0, err
			}
			defer client.Close()
			n := 0
			for users := range slices.Chunk(usersOf(ms), exchange) {
				pipe := client.Pipeline()
				lists := make([]*goredis.StringSliceCmd, len(users))
				for i, user := range users {
					lists[i] = pipe.LRange(ctx, key+user, 0, -1)
				}
				if _, err := pipe.Exec(ctx); err != nil {
					return 0, err
				}
				for _, list := range lists {
					n += len(list.Val())
				}
			}
			return n, nil
		},
	}
}

func inPostgres() kept {
	const query = "SELECT user_id AS owner, content FROM chat_memory WHERE user_id = ANY($1)"
	return kept{
		fill: func(ctx context.Context, url string, ms []memory.Memory) error {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}
			defer conn.Close(ctx)
			if _, err := conn.Exec(ctx, `CREATE TABLE chat_memory (id TEXT COLLATE "C" PRIMARY KEY, user_id TEXT NOT NULL,
				content TEXT NOT NULL, summary TEXT NOT NULL, created_at TEXT NOT NULL)`); err != nil {
				return err
			}
			if _, err := conn.CopyFrom(ctx, pgx.Identifier{"chat_memory"}, []string{"id", "user_id", "content", "summary", "created_at"},
				pgx.CopyFromSlice(len(ms), func(i int) ([]any, error) {
					r := recordOf(ms[i])
					return []any{r.ID, r.User, r.Text, r.Summary, r.At.Format(time.RFC3339Nano)}, nil
				})); err != nil {
				return err
			}
			if _, err := conn.Exec(ctx, "CREATE INDEX chat_memory_user ON chat_memory (user_id, id)"); err != nil {
				return err
			}
			_, err = conn.Exec(ctx, "VACUUM ANALYZE chat_memory")
			return err
		},
		view: func(url string) (view.View, error) {
			return postgres.New(postgres.Config{Name: "postgres", DSN: url, Query: query, Clock: clock.System()})
		},
		raw: func(ctx context.Context, url string, ms []memory.Memory) (int, error) {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return 0, err
			}
			defer conn.Close(ctx)
			rows, err := conn.Query(ctx, query, usersOf(ms))
			if err != nil {
				return 0, err
			}
			n := 0
			for ; rows.Next(); n++ {
				var owner, text string
				if err := rows.Scan(&owner, &text); err != nil {
					return 0, err
				}
			}
			return n, rows.Err()
		},
	}
}

func inChroma() kept {
	const name, page = "memories", 1000
	open := func(url string) (api.Client, error) { return api.NewHTTPClient(api.WithBaseURL(url)) }
	hash := embeddings.NewConsistentHashEmbeddingFunction()
	return kept{
		fill: func(ctx context.Context, url string, ms []memory.Memory) error {
			client, err := open(url)
			if err != nil {
				return err
			}
			defer client.Close()
			c, err := client.CreateCollection(ctx, name, api.WithEmbeddingFunctionCreate(hash))
			if err != nil {
				return err
			}
			for some := range slices.Chunk(ms, page) {
				var (
					ids     []api.DocumentID
					texts   []string
					vectors []embeddings.Embedding
					metas   []api.DocumentMetadata
				)
				for _, m := range some {
					r := recordOf(m)
					ids, texts = append(ids, api.DocumentID(r.ID)), append(texts, r.Text)
					// A search by meaning is not what is measured.
					vectors = append(vectors, embeddings.NewEmbeddingFromFloat32([]float32{float32(m.ID), 1}))
					metas = append(metas, api.NewDocumentMetadata(api.NewStringAttribute("user_id", r.User), api.NewStringAttribute("id", r.ID),
						api.NewStringAttribute("summary", r.Summary), api.NewStringAttribute("created_at", r.At.Format(time.RFC3339Nano))))
				}
				if err := c.Add(ctx, api.WithIDs(ids...), api.WithTexts(texts...), api.WithEmbeddings(vectors...), api.WithMetadatas(metas...)); err != nil {
					return err
				}
			}
			return nil
		},
		view: func(url string) (view.View, error) {
			return chroma.New(chroma.Config{Name: "chroma", URL: url, Collection: name, User: "user_id", Clock: clock.System()})
		},
		raw: func(ctx context.Context, url string, ms []memory.Memory) (int, error) {
			client, err := open(url)
			if err != nil {
				return 0, err
			}
			defer client.Close()
			c, err := client.GetCollection(ctx, name, api.WithEmbeddingFunctionGet(hash))
			if err != nil {
				return 0, err
			}
			n := 0
			for some := range slices.Chunk(ms, page) {
				ids := make([]api.DocumentID, len(some))
				for i, m := range some {
					ids[i] = api.DocumentID(recordOf(m).ID)
				}
				got, err := c.Get(ctx, api.WithIDs(ids...), api.WithInclude(api.IncludeDocuments, api.IncludeMetadatas))
				if err != nil {
					return 0, err
				}
				n += got.Count()
			}
			return n, nil
		},
	}
}
