package metrics

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"amnesia/pkg/memory"
)

// vec is a counter, gauge or histogram that follows from facts. What it counts is plain data in the fold, so that it can be
// had again without every fact; its series of 0 are of this run's setup.
type vec struct {
	name    string
	desc    *prometheus.Desc
	kind    prometheus.ValueType // but for a histogram
	buckets []float64            // of a histogram; nil: it is none
	zero    map[string][]string  // labels, by key

	mu   *sync.Mutex // of the fold
	fold *fold
}

// series is one of a vec.
type series struct {
	labels    []string
	value     float64   // of a histogram: the sum
	counts    []uint64  // of a histogram: observations by bucket, and those above all
	exemplars []*sample // by bucket; one of a counter
}

// sample is one that a series came by.
type sample struct {
	value  float64
	labels map[string]string
	at     int64 // Unix nanoseconds
}

func newVec(m *Metrics, name, help string, kind prometheus.ValueType, buckets []float64, labels []string) *vec {
	return &vec{name: name, desc: prometheus.NewDesc(prometheus.BuildFQName("amnesia", "", name), help, labels, nil), kind: kind,
		buckets: buckets, zero: map[string][]string{}, mu: &m.mu, fold: &m.fold}
}

// key tells labels apart.
func key(labels []string) string { return strings.Join(labels, "\xff") }

// exists has the series be there from the start.
func (v *vec) exists(labels ...string) { v.zero[key(labels)] = labels }

// with gives a series. The mutex is held.
func (v *vec) with(labels ...string) *series {
	of := v.fold.series[v.name]
	if of == nil {
		of = map[string]*series{}
		v.fold.series[v.name] = of
	}
	k := key(labels)
	s := of[k]
	if s == nil {
		s = v.empty(labels)
		of[k] = s
	}
	return s
}

func (v *vec) empty(labels []string) *series {
	s := &series{labels: labels, exemplars: make([]*sample, 1)}
	if v.buckets != nil {
		s.counts, s.exemplars = make([]uint64, len(v.buckets)+1), make([]*sample, len(v.buckets)+1)
	}
	return s
}

func (s *series) inc()              { s.value++ }
func (s *series) dec()              { s.value-- }
func (s *series) set(value float64) { s.value = value }

// example is inc with an exemplar.
func (s *series) example(labels map[string]string, at memory.Instant) {
	s.value++
	s.exemplars[0] = &sample{1, labels, at.Wall}
}

// observe takes what one clock has seen from a to b, in seconds, with an exemplar that may be nil.
func (v *vec) observe(s *series, a, b memory.Instant, exemplar map[string]string) {
	if a.IsZero() || b.IsZero() || !a.SameBoot(b) {
		return
	}
	v.take(s, b.Sub(a), exemplar, b)
}

func (v *vec) take(s *series, d time.Duration, exemplar map[string]string, at memory.Instant) {
	value := max(0, d.Seconds())
	i, _ := slices.BinarySearch(v.buckets, value)
	s.counts[i]++
	s.value += value
	if exemplar != nil {
		s.exemplars[i] = &sample{value, exemplar, at.Wall}
	}
}

// Describe is that of prometheus.Collector.
func (v *vec) Describe(ch chan<- *prometheus.Desc) { ch <- v.desc }

// Collect is that of prometheus.Collector.
func (v *vec) Collect(ch chan<- prometheus.Metric) {
	v.mu.Lock()
	defer v.mu.Unlock()
	of := v.fold.series[v.name]
	for k, labels := range v.zero {
		if of[k] == nil {
			ch <- v.metric(v.empty(labels))
		}
	}
	for _, s := range of {
		ch <- v.metric(s)
	}
}

func (v *vec) metric(s *series) prometheus.Metric {
	var m prometheus.Metric
	var err error
	if v.buckets == nil {
		m, err = prometheus.NewConstMetric(v.desc, v.kind, s.value, s.labels...)
	} else {
		upto, n := make(map[float64]uint64, len(v.buckets)), uint64(0)
		for i, le := range v.buckets {
			n += s.counts[i]
			upto[le] = n
		}
		m, err = prometheus.NewConstHistogram(v.desc, n+s.counts[len(v.buckets)], s.value, upto, s.labels...)
	}
	var exemplars []prometheus.Exemplar
	for _, e := range s.exemplars {
		if e != nil {
			exemplars = append(exemplars, prometheus.Exemplar{Value: e.value, Labels: e.labels, Timestamp: time.Unix(0, e.at)})
		}
	}
	if err == nil && len(exemplars) > 0 {
		m, err = prometheus.NewMetricWithExemplars(m, exemplars...)
	}
	if err != nil {
		return prometheus.NewInvalidMetric(v.desc, err)
	}
	return m
}
