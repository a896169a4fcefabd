package chatapp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisPrefix and the user make the key of a user's list. redisPending is the hash of the memories that are on their way
// to their homes (see inbox), by id; it lives for ever.
const (
	redisPrefix  = "chat:memory:"
	redisPending = "chat:pending"
)

// redisStore keeps each user's memories in a Redis list, oldest first, each as a JSON object (redisMemory). The list
// lives for ttl after its last write, as a conversation does.
type redisStore struct {
	client *redis.Client
	redisOptions
}

// redisOptions say how the lists are kept.
type redisOptions struct {
	ttl     time.Duration // 0: for ever
	refresh bool          // every write prolongs the list's life, not only the first
	inbox   bool          // what is saved is on its way to its homes, too
}

type redisMemory struct {
	ID      string    `json:"id"`
	User    string    `json:"user_id"`
	Text    string    `json:"content"`
	Summary string    `json:"summary"`
	At      time.Time `json:"created_at"`
}

// openRedis asks the server whether it is there.
func openRedis(ctx context.Context, address string, o redisOptions) (*redisStore, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, fmt.Errorf("opening Redis: %w", err)
	}
	options.ContextTimeoutEnabled = true
	options.MaxRetries = -1 // a push that is sent again after a lost answer stands in the list twice
	s := &redisStore{client: redis.NewClient(options), redisOptions: o}
	if err := s.client.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("opening Redis: %w — fix: let CHATAPP_REDIS_URL name a server that runs", errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *redisStore) Name() string { return RedisStore }

// pushScript appends to a list the values that are not there yet, which begin with the same id, sets the list's life,
// and gives the positions of those that were new. It is one step to everyone else, and one exchange to us.
//
// KEYS: the list, redisPending. ARGV: the life in milliseconds (0: for ever), 1 to prolong a life that is set, 1 if they
// are on their way, then the values.
const pushScript = `
local have = {}
for _, value in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do have[string.match(value, '^{"id":"(%x*)"')] = true end
local new = {}
for i = 4, #ARGV do
	local id = string.match(ARGV[i], '^{"id":"(%x*)"')
	if not have[id] then
		have[id] = true
		redis.call('RPUSH', KEYS[1], ARGV[i])
		new[#new + 1] = i - 4
	end
	if ARGV[3] == '1' then redis.call('HSET', KEYS[2], id, ARGV[i]) end
end
if ARGV[1] ~= '0' and #new > 0 and (ARGV[2] == '1' or redis.call('PTTL', KEYS[1]) < 0) then
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
return new`

// Save writes each user's memories in one step.
func (s *redisStore) Save(ctx context.Context, ms ...Memory) ([]Memory, error) {
	byUser := map[string][]Memory{}
	for _, m := range ms {
		byUser[m.User] = append(byUser[m.User], m)
	}
	fresh := map[string]bool{}
	for user, theirs := range byUser {
		args := []any{s.ttl.Milliseconds(), s.refresh, s.inbox}
		for _, m := range theirs {
			value, err := json.Marshal(redisMemory{m.ID, m.User, m.Text, m.Summary, m.At.UTC()})
			if err != nil {
				return nil, err
			}
			args = append(args, value)
		}
		added, err := s.client.Eval(ctx, pushScript, []string{redisPrefix + user, redisPending}, args...).Int64Slice()
		if err != nil {
			return nil, fmt.Errorf("saving to Redis: %w", err)
		}
		for _, i := range added {
			fresh[theirs[i].ID] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(ms), func(m Memory) bool { return !fresh[m.ID] }), nil
}

// deleteScript removes from a list the values that begin with one of the ids, also from what is on its way, and gives
// the ids that the list had. It is one step, so that a server which was frozen meanwhile does all of it or nothing.
//
// KEYS: the list, redisPending. ARGV: the ids.
const deleteScript = `
local doomed, gone = {}, {}
for _, id in ipairs(ARGV) do
	doomed[id] = true
	redis.call('HDEL', KEYS[2], id)
end
for _, value in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do
	local id = string.match(value, '^{"id":"(%x*)"')
	if doomed[id] and redis.call('LREM', KEYS[1], 0, value) > 0 then gone[#gone + 1] = id end
end
return gone`

func (s *redisStore) Delete(ctx context.Context, ms ...Memory) (deleted []string, err error) {
	byUser := map[string][]any{}
	for _, m := range ms {
		byUser[m.User] = append(byUser[m.User], m.ID)
	}
	for user, ids := range byUser {
		gone, err := s.client.Eval(ctx, deleteScript, []string{redisPrefix + user, redisPending}, ids...).StringSlice()
		if err != nil {
			return deleted, fmt.Errorf("deleting from Redis: %w", err)
		}
		deleted = append(deleted, gone...)
	}
	return deleted, nil
}

// pending gives what is on its way, oldest first.
func (s *redisStore) pending(ctx context.Context) ([]Memory, error) {
	values, err := s.client.HVals(ctx, redisPending).Result()
	if err == nil {
		var ms []Memory
		if ms, err = decode(redisPending, values); err == nil {
			slices.SortFunc(ms, func(a, b Memory) int { return cmp.Compare(a.ID, b.ID) })
			return ms, nil
		}
	}
	return nil, fmt.Errorf("reading what is on its way from Redis: %w", err)
}

// arrived says that they are on their way no longer.
func (s *redisStore) arrived(ctx context.Context, ms []Memory) error {
	if err := s.client.HDel(ctx, redisPending, idsOf(ms)...).Err(); err != nil {
		return fmt.Errorf("telling Redis what has arrived: %w", err)
	}
	return nil
}

func (s *redisStore) Find(ctx context.Context, q Query) ([]Memory, error) {
	keys := []string{redisPrefix + q.User}
	if q.User == "" {
		var err error
		if keys, err = s.keys(ctx); err != nil {
			return nil, fmt.Errorf("reading Redis: %w", err)
		}
	}
	var found []Memory
	for _, key := range keys {
		values, err := s.client.LRange(ctx, key, 0, -1).Result()
		if err != nil {
			return nil, fmt.Errorf("reading Redis: %w", err)
		}
		ms, err := decode(key, values)
		if err != nil {
			return nil, fmt.Errorf("reading Redis: %w", err)
		}
		found = append(found, ms...)
	}
	return q.pick(bare(found)), nil
}

// decode reads the values of a key.
func decode(key string, values []string) ([]Memory, error) {
	ms := make([]Memory, len(values))
	for i, value := range values {
		var m redisMemory
		if err := json.Unmarshal([]byte(value), &m); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", key, i, err)
		}
		ms[i] = Memory(m)
	}
	return ms, nil
}

// keys gives every user's key once; a scan may repeat itself (redis.io/commands/scan).
func (s *redisStore) keys(ctx context.Context) ([]string, error) {
	var keys []string
	scan := s.client.Scan(ctx, 0, redisPrefix+"*", 1000).Iterator()
	for scan.Next(ctx) {
		keys = append(keys, scan.Val())
	}
	slices.Sort(keys)
	return slices.Compact(keys), scan.Err()
}

func (s *redisStore) Close() error {
	if err := s.client.Close(); err != nil {
		return fmt.Errorf("closing Redis: %w", err)
	}
	return nil
}
