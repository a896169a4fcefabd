//go:build unix

package process

import (
	"context"
	"errors"
	"path/filepath"

	"amnesia/pkg/fact"
)

// Describe tells of the newest process of each service. A folder of its scratch is a mount of the kind scratch.
func (e *Engine) Describe(_ context.Context, services ...string) (states []fact.ServiceState, err error) {
	defer e.observe.Time(e.clock, "describe")(&err)
	var errs []error
	for _, name := range services {
		s, err := e.service(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		state := fact.ServiceState{Service: name, Name: filepath.Base(s.path), State: "created", Command: s.Command}
		for _, d := range s.scratch {
			state.Mounts = append(state.Mounts, fact.Mount{Kind: "scratch", Source: d.path, Path: d.path})
		}
		if p := s.current(); p != nil {
			state.Instance, state.State = p.instance, "running"
			select {
			case <-p.done:
				state.State, state.Exit = "exited", exitCode(p.cmd.ProcessState)
			default:
			}
		}
		states = append(states, state)
	}
	return states, errors.Join(errs...)
}
