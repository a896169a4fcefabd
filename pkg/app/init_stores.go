package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"amnesia/pkg/discover"
	"amnesia/pkg/memory"
	"amnesia/pkg/view/chroma"
	"amnesia/pkg/view/postgres"
	"amnesia/pkg/view/redis"
)

// stores looks for what the first user told in every store.
func (i *initer) stores(ctx context.Context) {
	d := &i.draft
	deadline := time.Now()
	if i.probe != nil {
		deadline = i.probe.ToldAt.Add(arriveWithin)
	}
	for _, p := range d.Parts {
		if p.Kind == "" || p.Unfit != "" {
			continue
		}
		var looks []discover.Look
		why, absent := "nothing could be told to the app, so nothing was looked for", false
		if i.probe != nil && len(i.probe.Told) > 0 {
			i.say("looking in %s for what was told", p.Service)
			var err error
			if looks, err = i.locate(ctx, p, deadline); err != nil {
				why = "could not look into it: " + i.redact(err).Error()
			} else {
				why, absent = "nothing that was told is there", true
			}
		}
		if len(looks) == 0 {
			looks = []discover.Look{i.blank(ctx, p, why)}
			looks[0].Absent = absent
		}
		for k, l := range looks {
			l.Name, l.Service = string(p.Kind), p.Service
			if n := i.named(l.Name); n > 0 {
				l.Settings = append([]discover.Setting{discover.Set("kind", l.Name)}, l.Settings...)
				l.Name = fmt.Sprintf("%s-%d", l.Name, n+1)
			}
			looks[k] = l
			d.Looks = append(d.Looks, l)
		}
	}
}

// blank is a view of a store in which nothing was found, to be filled in.
func (i *initer) blank(ctx context.Context, p discover.Part, why string) discover.Look {
	l := discover.Look{Gap: why}
	switch p.Kind {
	case discover.Redis:
		l.Settings = []discover.Setting{discover.Set("url", "redis://"+p.At+"/0"), discover.Set("key", "…:{user}")}
	case discover.Postgres:
		_, set, export, err := i.dsn(ctx, p)
		if err != nil {
			set = discover.Set("dsn_env", "PG_DSN")
		}
		l.Settings, l.Export = []discover.Setting{set, discover.Set("query", "SELECT … AS owner, … FROM … WHERE … = ANY($1)")}, export
	case discover.Chroma:
		l.Settings = []discover.Setting{discover.Set("url", "http://"+p.At), discover.Set("collection", "…"), {Key: "match", Value: `{user: "…"}`}}
	}
	return l
}

// named counts the views that are called so, with a number or without.
func (i *initer) named(name string) (n int) {
	for _, l := range i.draft.Looks {
		if l.Name == name || strings.HasPrefix(l.Name, name+"-") {
			n++
		}
	}
	return n
}

// locate waits until a store has what was told last, and says how it is read there.
func (i *initer) locate(ctx context.Context, p discover.Part, deadline time.Time) (looks []discover.Look, err error) {
	m := i.probe.Told[len(i.probe.Told)-1]
	ctx, cancel := context.WithTimeout(ctx, arriveWithin+viewWithin)
	defer cancel()
	for {
		switch p.Kind {
		case discover.Redis:
			looks, err = i.inRedis(ctx, p, m)
		case discover.Postgres:
			looks, err = i.inPostgres(ctx, p, m)
		case discover.Chroma:
			looks, err = inChroma(ctx, p, m)
		}
		if err != nil || len(looks) > 0 || time.Now().After(deadline) {
			return looks, err
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (i *initer) inRedis(ctx context.Context, p discover.Part, m memory.Memory) (looks []discover.Look, err error) {
	address := url.URL{Scheme: "redis", Host: p.At}
	password, secret, err := i.engine.Variable(ctx, p.Container.ID, "REDIS_PASSWORD")
	if err != nil {
		return nil, err
	}
	if secret = secret && password != ""; secret {
		address.User = url.UserPassword("", password)
	}
	places, err := redis.Locate(ctx, address.String(), m.User, m.Token)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		at := address
		at.Path = fmt.Sprint("/", place.DB)
		l := discover.Look{Settings: []discover.Setting{discover.Set("url", at.String()), discover.Set("key", place.Key)}}
		if secret {
			name := i.variable("REDIS_URL", p.Service)
			l.Settings[0] = discover.Set("url_env", name)
			i.env[name] = at.String()
			l.Export = i.export(name, fmt.Sprintf("redis://:%s@%s/%d", "%s", p.At, place.DB), p.Container.Name, "REDIS_PASSWORD", password)
		}
		if !place.Named() {
			if len(looks) > 0 {
				continue
			}
			l.Gap = fmt.Sprintf("what was told is in the %s %s, which does not name its user", place.Type, place.Key)
		} else if len(looks) > 0 && looks[0].Gap == "" {
			l.Note = "found here too"
		}
		l.Contract = []discover.Setting{{Key: "durable", Value: "true"}}
		if place.TTL > 0 {
			l.Contract = append(l.Contract, discover.Duration("ttl", place.TTL)) // to be made exact
		}
		looks = append(looks, l)
	}
	return looks, nil
}

// variable gives the name of the variable that the file has a service's address from: the usual one, but where another
// service has that.
func (i *initer) variable(name, service string) string {
	if i.owners[name] == "" || i.owners[name] == service {
		i.owners[name] = service
		return name
	}
	return name + "_" + strings.ToUpper(strings.ReplaceAll(service, "-", "_"))
}

// export gives, and notes, the command that sets a variable from a container's environment, without saying the secret.
// value is an address, which holds %s where the command that prints the secret stands.
func (i *initer) export(name, value, container, from, secret string) (command string) {
	get := fmt.Sprintf(`docker inspect --format '{{range .Config.Env}}{{println .}}{{end}}' %s | sed -n 's/^%s=//p'`, shell([]string{container}), from)
	if url.QueryEscape(secret) != secret { // it would have to be written otherwise in an address
		get += ` | od -An -v -tx1 | tr -d '\n' | sed 's/ 0a$//; s/ /%/g'`
	}
	command = fmt.Sprintf("export %s=\"%s\"", name, strings.ReplaceAll(strings.ReplaceAll(value, "$", `\$`), "%s", "$("+get+")"))
	i.exports[name] = command
	return command
}

// dsn gives the address of a PostgreSQL, how the file has it, and the command that sets the variable for that; none where
// no password is needed.
func (i *initer) dsn(ctx context.Context, p discover.Part) (dsn string, set discover.Setting, export string, err error) {
	get := func(names ...string) (name, value string, err error) {
		for _, name := range names {
			value, ok, err := i.engine.Variable(ctx, p.Container.ID, name)
			if err != nil || ok && value != "" {
				return name, value, err
			}
		}
		return "", "", nil
	}
	_, user, err1 := get("POSTGRES_USER", "POSTGRESQL_USERNAME")
	_, database, err2 := get("POSTGRES_DB", "POSTGRESQL_DATABASE")
	from, password, err3 := get("POSTGRES_PASSWORD", "POSTGRESQL_PASSWORD")
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", set, "", err
	}
	user = cmp.Or(user, "postgres")
	address := url.URL{Scheme: "postgres", User: url.User(user), Host: p.At, Path: "/" + cmp.Or(database, user)}
	if password == "" {
		return address.String(), discover.Set("dsn", address.String()), "", nil
	}
	name := i.variable("PG_DSN", p.Service)
	form := strings.Replace(address.String(), "@", ":%s@", 1)
	address.User = url.UserPassword(user, password)
	i.env[name] = address.String()
	return address.String(), discover.Set("dsn_env", name), i.export(name, form, p.Container.Name, from, password), nil
}

func (i *initer) inPostgres(ctx context.Context, p discover.Part, m memory.Memory) (looks []discover.Look, err error) {
	dsn, set, export, err := i.dsn(ctx, p)
	if err != nil {
		return nil, err
	}
	places, err := postgres.Locate(ctx, dsn, m.User, m.Text, m.Token)
	if err != nil || len(places) == 0 {
		return nil, err
	}
	best := places[0]
	l := discover.Look{Settings: []discover.Setting{set, discover.Set("query", best.Query)}, Export: export}
	if best.Query == "" {
		l.Settings[1] = discover.Set("query", fmt.Sprintf("SELECT %s FROM %s WHERE … = $1", best.Column, best.Table))
		l.Gap = fmt.Sprintf("what was told is in %s.%s, and no way from there to the user's name was found", best.Table, best.Column)
	}
	var others []string
	for _, o := range places[1:] {
		others = append(others, o.Table+"."+o.Column)
	}
	if len(others) > 0 {
		l.Note = "what was told is in " + strings.Join(others[:min(len(others), 5)], ", ") + " too"
	}
	return []discover.Look{l}, nil
}

func inChroma(ctx context.Context, p discover.Part, m memory.Memory) (looks []discover.Look, err error) {
	address := "http://" + p.At
	places, err := chroma.Locate(ctx, address, nil, m.User, m.Text, m.Token)
	for _, place := range places {
		l := discover.Look{Settings: []discover.Setting{discover.Set("url", address), discover.Set("collection", place.Collection),
			{Key: "match", Value: "{user: " + discover.Scalar(place.User) + "}"}}}
		if place.User == "" {
			l.Gap = fmt.Sprintf("what was told is in the collection %s, and no field of its metadata names the user", place.Collection)
		}
		looks = append(looks, l)
	}
	return looks, err
}
