package fact

import (
	"slices"
)

// Redact gives the fact with clean applied to the texts that others wrote: what a page or a log said, what went wrong. It
// changes neither f nor what f shares, and no name, text or token of a memory: by those facts are known.
func Redact(f Fact, clean func(string) string) Fact {
	switch f := f.(type) {
	case Cycle:
		f.Reason = clean(f.Reason)
		return f
	case Settled:
		f.Detail = clean(f.Detail)
		return f
	case ForgetSettled:
		f.Detail = clean(f.Detail)
		return f
	case Told:
		f.Detail = clean(f.Detail)
		return f
	case Sweep:
		f.Error = clean(f.Error)
		f.Before, f.After = redactOne(f.Before, clean), redactOne(f.After, clean)
		f.Observations = slices.Clone(f.Observations)
		for i := range f.Observations {
			f.Observations[i].Detail = clean(f.Observations[i].Detail)
		}
		return f
	case Step:
		f.Detail = clean(f.Detail)
		f.Before, f.After = redactHealth(f.Before, clean), redactHealth(f.After, clean)
		return f
	case Gate:
		f.Services = redactHealth(f.Services, clean)
		return f
	case Death:
		f.Detail = clean(f.Detail)
		return f
	case Log:
		f.Line = clean(f.Line)
		return f
	case Session:
		f.Detail = clean(f.Detail)
		return f
	case Judged:
		f.Verdict.Because = clean(f.Verdict.Because)
		return f
	case Pause:
		f.Reason = clean(f.Reason)
		return f
	case Muting:
		f.Known = slices.Clone(f.Known)
		for i := range f.Known {
			f.Known[i].Reason = clean(f.Known[i].Reason)
		}
		return f
	case Frozen:
		f.Logs, f.Services = slices.Clone(f.Logs), slices.Clone(f.Services)
		for i := range f.Logs {
			f.Logs[i].Line = clean(f.Logs[i].Line)
		}
		for i := range f.Services {
			f.Services[i].Command = redactTexts(f.Services[i].Command, clean)
			f.Services[i].Findings = redactTexts(f.Services[i].Findings, clean)
		}
		return f
	}
	return f
}

func redactOne(h *Health, clean func(string) string) *Health {
	if h == nil {
		return nil
	}
	c := *h
	c.Detail = clean(c.Detail)
	return &c
}

func redactHealth(list []Health, clean func(string) string) []Health {
	list = slices.Clone(list)
	for i := range list {
		list[i].Detail = clean(list[i].Detail)
	}
	return list
}

func redactTexts(list []string, clean func(string) string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = clean(list[i])
	}
	return list
}
