package docker

import (
	"slices"
	"sync"
	"time"

	"amnesia/pkg/fact"
)

// maxLives bounds what is remembered. Events are late by seconds, not by hundreds of lives.
const maxLives = 1024

// deaths knows whose doing a death, or a start, was. It remembers the lives that were seen, and which of them we were asked to
// begin and to end; an event belongs to the life that had begun last before it, by the engine's own clock. It may be asked as
// often as there are followers of the events, and as late as they come.
type deaths struct {
	mu     sync.Mutex
	lives  []life
	starts map[string]bool // ids that we are starting, until their new life is seen
}

type life struct {
	fact.Instance
	began   time.Time
	started bool // we began it
	ours    bool // its end was asked for
}

func newDeaths() *deaths { return &deaths{starts: make(map[string]bool)} }

// seen remembers a life. The first sight counts: the restart count rises before the start time changes.
func (d *deaths) seen(i fact.Instance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.find(i)
}

// asked marks the end of a life as ours, before it is ended.
func (d *deaths) asked(i fact.Instance) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.find(i); l != nil {
		l.ours = true
	}
}

// find gives the life, remembered now if it was not; nil for a container that never started.
func (d *deaths) find(i fact.Instance) *life {
	for n := len(d.lives) - 1; n >= 0; n-- {
		if l := &d.lives[n]; l.ID == i.ID && l.Started == i.Started {
			return l
		}
	}
	began, err := time.Parse(time.RFC3339Nano, i.Started)
	if err != nil || began.Year() < 1970 { // the zero time
		return nil
	}
	if len(d.lives) == maxLives {
		d.lives = slices.Delete(d.lives, 0, 1)
	}
	d.lives = append(d.lives, life{Instance: i, began: began, started: d.starts[i.ID]})
	delete(d.starts, i.ID)
	return &d.lives[len(d.lives)-1]
}

// at gives the life of a container at an instant of the engine's clock, and whether we began it and were asked to end it.
func (d *deaths) at(id string, at time.Time) (who fact.Instance, started, ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := life{Instance: fact.Instance{ID: id}}
	for _, l := range d.lives {
		if l.ID == id && !l.began.After(at) && !l.began.Before(found.began) {
			found = l
		}
	}
	return found.Instance, found.started, found.ours
}

// starting marks the next life of a container that is seen as begun by us.
func (d *deaths) starting(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starts[id] = true
}

// settled ends the marking: the life is seen, or there is none.
func (d *deaths) settled(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.starts, id)
}
