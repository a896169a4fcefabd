package app

import (
	"context"
	"path/filepath"

	"amnesia/chaos"
	"amnesia/pkg/config"
	"amnesia/pkg/discover"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
	"amnesia/pkg/session"
	"amnesia/pkg/session/browser"
	"amnesia/pkg/view"
)

// newFreezer makes what keeps the evidence; it learns of the engine, the browser and the stores as they are opened.
func (a *App) newFreezer() *incident.Freezer {
	return &incident.Freezer{Clock: a.clock, Log: a.log, Redact: a.cfg.Redact, Dir: a.cfg.Evidence.Dir,
		Owes: func(id memory.ID, at memory.Instant) (owes bool) {
			a.Docket.Read(func(b *oracle.Book) { owes = b.Owes(id, "page", at) })
			return owes
		}}
}

// freezing has the loop's finds frozen, with what the engine and the stores behind the views can tell.
func (a *App) freezing(engine chaos.Engine, driver session.Driver) {
	if d, ok := engine.(chaos.Describer); ok {
		a.freezer.Describe = d.Describe
	}
	if b, ok := driver.(*browser.Driver); ok {
		a.freezer.Draw = b.Draw
	}
	a.freezer.Diagnose = func(ctx context.Context) ([]discover.Finding, error) {
		var stack discover.Stack
		var err error
		if e, ok := engine.(discover.Engine); ok {
			stack.Containers, err = e.Containers(ctx)
		}
		looks := map[int]view.View{}
		for i, l := range a.loop.Looks {
			looks[i] = l.View
		}
		stack.Stores = a.stores(ctx, looks)
		return discover.Diagnose(stack), err
	}
	a.loop.Freezer = a.freezer
}

// stores asks the stores behind views, which are opened by their place in the file, each once.
func (a *App) stores(ctx context.Context, opened map[int]view.View) (stores []discover.Store) {
	at := map[string]int{} // by service, kind and file
	for i, v := range a.cfg.Views {
		kind := map[string]discover.Kind{"redis": discover.Redis, "postgres": discover.Postgres, "chroma": discover.Chroma,
			"chroma_query": discover.Chroma, "sqlite": discover.SQLite}[v.Kind]
		if kind == "" || opened[i] == nil {
			continue
		}
		key, cache := v.Service+" "+string(kind)+" "+v.SQLite.Path, !a.cfg.Contracts()[i].Durable
		if n, ok := at[key]; ok {
			stores[n].Cache = stores[n].Cache && cache
			continue
		}
		at[key] = len(stores)
		stores = append(stores, a.store(ctx, v, kind, opened[i], cache))
	}
	return stores
}

// store asks the store behind a view for its settings.
func (a *App) store(ctx context.Context, v config.View, kind discover.Kind, opened view.View, cache bool) discover.Store {
	s := discover.Store{Service: v.Service, Kind: kind, Cache: cache}
	if kind == discover.SQLite {
		s.Path = v.SQLite.Path
		s.Holders = discover.Holders(s.Path)
		for _, svc := range a.cfg.Target.Services {
			for _, dir := range svc.Scratch {
				if within, err := filepath.Rel(filepath.Join(svc.Dir, dir), s.Path); err == nil && filepath.IsLocal(within) && svc.Name == v.Service {
					s.Scratch = dir
				}
			}
		}
		return s
	}
	if settler, ok := opened.(discover.Settler); ok {
		ctx, cancel := context.WithTimeout(ctx, viewWithin)
		defer cancel()
		s.Settings, s.Unread = settler.Settings(ctx, discover.Wants(kind)...)
		if s.Unread != nil {
			s.Unread = redactError(s.Unread, a.cfg.Redact)
		}
	}
	return s
}
