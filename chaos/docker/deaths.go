package docker

import (
	"slices"
	"sync"
	"time"

	"amnesia/pkg/fact"
)

// maxLives bounds what is remembered. Events are late by seconds, not by hundreds of lives.
const maxLives = 1024

// deaths knows whose doing a death was. It remembers the lives that were seen, and which of them we were asked to end;
// the death in an event belongs to the life that had begun last before it, by the engine's own clock.
type deaths struct {
	mu     sync.Mutex
	lives  []life
	starts map[string]bool // ids that we are starting
}

type life struct {
	fact.Instance
	began time.Time
	ours  bool // its end was asked for
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
	d.lives = append(d.lives, life{Instance: i, began: began})
	return &d.lives[len(d.lives)-1]
}

// at gives the life of a container at an instant of the engine's clock.
func (d *deaths) at(id string, at time.Time) (who fact.Instance, ours bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := life{Instance: fact.Instance{ID: id}}
	for _, l := range d.lives {
		if l.ID == id && !l.began.After(at) && !l.began.Before(found.began) {
			found = l
		}
	}
	return found.Instance, found.ours
}

func (d *deaths) starting(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starts[id] = true
}

func (d *deaths) notStarted(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.starts, id)
}

// started reports, once, whether a start was asked for by us.
func (d *deaths) started(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	ours := d.starts[id]
	delete(d.starts, id)
	return ours
}
