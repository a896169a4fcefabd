// Package metrics are the Prometheus collectors of the daemon. The names and labels are a contract: alerts and
// dashboards are written against them.
//
// Nearly all of them are a fold over the facts of the ledger, so that they continue across a restart by construction: a
// new daemon folds the facts of the old one, or has what that one made of them (Lend), then its own as they become durable (Tap). It decides nothing.
//
// No label ever holds the id of a memory, a user or a cycle: those go with a loss as an exemplar. Every series that an
// alert reads is there, at 0, from the start, so that increase() sees the first loss too.
package metrics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/incident"
	"amnesia/pkg/memory"
)

// BuildInfo says which build this is.
type BuildInfo struct{ Version, Revision string }

// Fault is one configured way of hurting the target. Service is empty for a kind that hits them all.
type Fault struct{ Kind, Service string }

// Setup names what the run is made of, so that its series exist from the start.
type Setup struct {
	Build    BuildInfo
	Driver   string   // browser or http
	Services []string // of the target
	Views    []string
	Faults   []Fault
	Levels   []string // the script's acknowledgement levels

	BrowserRestarts []string // the reasons for which a browser may be restarted; none where there is no browser
}

// all is the label of service of a fault that hits every one.
const all = incident.AllServices

// Results of a sweep.
const (
	complete   = "complete"
	partial    = "partial"
	unreadable = "unreadable"
)

var (
	outcomes        = []memory.Outcome{memory.Acknowledged, memory.Rejected, memory.Unknown}
	cycleOutcomes   = []fact.CycleOutcome{fact.CycleClean, fact.CycleLosses, fact.CycleDefects, fact.CycleUnrecovered, fact.CycleInconclusive}
	sweepResults    = []string{complete, partial, unreadable}
	sessionOutcomes = []string{"ok", "target_error", "rig_error", "aborted"}
	pauses          = []chaos.Reason{chaos.ReasonPaused, chaos.ReasonHalted, chaos.ReasonLedger}
	deathCauses     = []string{"oom", "exit", "external"}
	phases          = []fact.Phase{fact.PhaseTraffic, fact.PhaseRecovery, fact.PhaseSettle, fact.PhaseJudge}
)

// Metrics are the collectors. The methods are safe for concurrent use.
type Metrics struct {
	writes     *vec
	memories   *vec
	losses     *vec
	defects    *vec
	known      *vec
	recoveries *vec
	visible    *vec
	exposure   *vec
	detection  *vec

	cycles        *vec
	cycleDuration *vec

	faults        *vec
	faultsActive  *vec
	refusals      *vec
	faultRecovery *vec
	nextFault     prometheus.Gauge
	paused        *prometheus.GaugeVec
	foreignDeaths *vec

	sessions        *vec
	sessionDuration *vec

	sweeps        *vec
	sweepDuration *vec
	lastSweep     *vec

	engineRequest *prometheus.HistogramVec
	engineErrors  *prometheus.CounterVec

	ledgerAppend prometheus.Histogram
	ledgerSize   prometheus.Gauge
	ledgerErrors prometheus.Counter

	selfTestFailures prometheus.Counter
	selfTest         prometheus.Gauge
	browserRestarts  *prometheus.CounterVec
	browserMemory    prometheus.Gauge

	mu       sync.Mutex
	fold     fold
	restarts map[string]int // those that are counted
}

// Buckets in seconds. Exposure wants the milliseconds after an acknowledgement, in which most losses happen.
var (
	fineBuckets   = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10}
	coarseBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	appendBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
)

// New makes the collectors, registers them with reg, and sets the series of the setup to 0.
func New(reg prometheus.Registerer, setup Setup) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "amnesia", Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "amnesia", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "amnesia", Name: name, Help: help, Buckets: buckets}, labels)
	}
	m := &Metrics{
		fold:     newFold(),
		restarts: map[string]int{},
		nextFault: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "amnesia", Name: "next_fault_timestamp_seconds",
			Help: "Earliest time of the next fault; 0 when none is planned."}),
		paused:        gauge("paused", "Whether faults are held back.", "reason"),
		engineRequest: histogram("engine_request_seconds", "Time that an operation on the target's engine took.", fineBuckets, "operation"),
		engineErrors:  counter("engine_errors_total", "Operations on the target's engine that failed.", "operation"),
		ledgerAppend: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "amnesia", Name: "ledger_append_seconds",
			Help: "Time until appended facts were durable.", Buckets: appendBuckets}),
		ledgerSize: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "amnesia", Name: "ledger_size_bytes",
			Help: "Size of the ledger's files."}),
		ledgerErrors: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "amnesia", Name: "ledger_errors_total",
			Help: "Appends that failed."}),
		selfTestFailures: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "amnesia", Name: "oracle_selftest_failures_total",
			Help: "Self-tests in which the daemon did not find a memory lost that was never told, or found one lost that is kept."}),
		selfTest: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "amnesia", Name: "oracle_selftest_timestamp_seconds",
			Help: "Time of the last self-test that was passed; 0 before the first."}),
		browserRestarts: counter("browser_restarts_total", "Restarts of the browser that users are played in.", "reason"),
		browserMemory: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "amnesia", Name: "browser_resident_memory_bytes",
			Help: "Memory that the browser and its driver have resident, as measured last; 0 where there is none or it is not known."}),
	}
	counted := func(name, help string, labels ...string) *vec {
		return newVec(m, name, help, prometheus.CounterValue, nil, labels)
	}
	levelled := func(name, help string, labels ...string) *vec {
		return newVec(m, name, help, prometheus.GaugeValue, nil, labels)
	}
	timed := func(name, help string, buckets []float64, labels ...string) *vec {
		return newVec(m, name, help, 0, buckets, labels)
	}
	m.writes = counted("memory_writes_total", "Memories told, by what their user saw.", "outcome")
	m.memories = levelled("memories", "Memories in the ledger that were judged, by their last verdict.", "verdict")
	m.losses = counted("memory_losses_total", "Memories lost, each once.", "verdict", "class", "level", "fault", "service")
	m.defects = counted("memory_defects_total", "Defects beside the verdict, each once for a memory.", "defect")
	m.known = counted("memory_known_total", "Losses and defects of incidents that were known when they were found, each once for a memory, and in no "+
		"other counter. The class of a defect is the defect.", "class", "fault", "service")
	m.recoveries = counted("memory_recoveries_total", "Memories never acknowledged that a view has all the same.", "view")
	m.visible = timed("memory_visible_seconds", "From acknowledgement to first seen in a view.", fineBuckets, "view")
	m.exposure = timed("loss_exposure_seconds", "From acknowledgement to the fault that lost it.", fineBuckets, "fault", "service")
	m.detection = timed("loss_detection_seconds", "From the fault to the confirmed loss.", coarseBuckets)
	m.cycles = counted("cycles_total", "Cycles that ended.", "outcome", "control")
	m.cycleDuration = timed("cycle_duration_seconds", "Time that a phase of a cycle took.", coarseBuckets, "phase")
	m.faults = counted("faults_total", "Injections that ended.", "kind", "service", "outcome")
	m.faultsActive = levelled("faults_active", "Injections that are not yet reverted.", "kind", "service")
	m.refusals = counted("fault_refusals_total", "Faults that the guard refused.", "reason")
	m.faultRecovery = timed("fault_recovery_seconds", "From the fault until the service was healthy.", coarseBuckets, "kind", "service")
	m.foreignDeaths = counted("foreign_deaths_total", "Deaths of the target's instances that no fault of ours explains.", "service", "cause")
	m.sessions = counted("sessions_total", "Scripted sessions that ended.", "driver", "outcome")
	m.sessionDuration = timed("session_duration_seconds", "Time that a session took.", coarseBuckets, "driver")
	m.sweeps = counted("sweeps_total", "Readings of a view.", "view", "result")
	m.sweepDuration = timed("sweep_duration_seconds", "Time that reading a view took.", coarseBuckets, "view")
	m.lastSweep = levelled("last_sweep_timestamp_seconds", "Time of the last complete reading of a view; 0 before the first.", "view")
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "amnesia", Name: "build_info",
		Help: "Always 1; the labels say which build this is."}, []string{"version", "revision", "goversion"})
	info.WithLabelValues(setup.Build.Version, setup.Build.Revision, runtime.Version()).Set(1)

	for _, c := range []prometheus.Collector{
		info, m.writes, m.memories, m.losses, m.defects, m.known, m.recoveries, m.visible, m.exposure, m.detection,
		m.cycles, m.cycleDuration, m.faults, m.faultsActive, m.refusals, m.faultRecovery, m.nextFault, m.paused,
		m.foreignDeaths, m.sessions, m.sessionDuration, m.sweeps, m.sweepDuration, m.lastSweep, m.engineRequest, m.engineErrors, m.ledgerAppend,
		m.ledgerSize, m.ledgerErrors, m.selfTestFailures, m.selfTest, m.browserRestarts, m.browserMemory,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics: %w", err)
		}
	}
	m.zero(setup)
	return m, nil
}

// zero makes the series of the setup exist.
func (m *Metrics) zero(s Setup) {
	m.detection.exists()
	for _, o := range outcomes {
		m.writes.exists(string(o))
	}
	for _, k := range memory.Kinds {
		m.memories.exists(string(k))
	}
	for _, f := range suspects(s) {
		for _, class := range []memory.Class{memory.Silent, memory.Reported, memory.Unsure} {
			m.known.exists(string(class), f.Kind, f.Service)
		}
		for _, level := range append(slices.Clone(s.Levels), memory.LevelObserved) {
			for _, v := range []memory.Kind{memory.Lost, memory.Torn} {
				for _, class := range []memory.Class{memory.Silent, memory.Reported, memory.Permitted} {
					m.losses.exists(string(v), string(class), level, f.Kind, f.Service)
				}
			}
			for _, class := range []memory.Class{memory.Silent, memory.Reported, memory.Unsure} {
				m.losses.exists(string(memory.Hidden), string(class), level, f.Kind, f.Service)
			}
		}
	}
	for _, d := range memory.Defects {
		m.defects.exists(string(d))
		m.known.exists(string(d), "", "")
	}
	for _, o := range cycleOutcomes {
		for _, control := range []bool{true, false} {
			m.cycles.exists(string(o), strconv.FormatBool(control))
		}
	}
	for _, p := range phases {
		m.cycleDuration.exists(string(p))
	}
	for _, f := range s.Faults {
		service := cmp.Or(f.Service, all)
		for _, o := range chaos.Outcomes() {
			m.faults.exists(f.Kind, service, string(o))
		}
		m.faultsActive.exists(f.Kind, service)
		m.faultRecovery.exists(f.Kind, service)
		m.exposure.exists(f.Kind, service)
	}
	for _, service := range s.Services {
		for _, cause := range deathCauses {
			m.foreignDeaths.exists(service, cause)
		}
	}
	for _, r := range chaos.Reasons() {
		m.refusals.exists(string(r))
	}
	for _, r := range pauses {
		m.paused.WithLabelValues(string(r))
	}
	for _, o := range sessionOutcomes {
		m.sessions.exists(s.Driver, o)
	}
	m.sessionDuration.exists(s.Driver)
	for _, r := range s.BrowserRestarts {
		m.browserRestarts.WithLabelValues(r)
	}
	for _, v := range s.Views {
		m.recoveries.exists(v)
		m.visible.exists(v)
		for _, r := range sweepResults {
			m.sweeps.exists(v, r)
		}
		m.sweepDuration.exists(v)
		m.lastSweep.exists(v)
	}
}

// suspects lists what a loss may be put down to.
func suspects(s Setup) []Fault {
	out := []Fault{{memory.FaultSeveral, incident.SeveralServices}}
	for _, f := range s.Faults {
		out = append(out, Fault{f.Kind, cmp.Or(f.Service, all)})
	}
	for _, service := range s.Services {
		out = append(out, Fault{memory.FaultForeign, service}, Fault{memory.FaultNone, service})
	}
	return out
}

// Engine is told of every operation on the target's engine, as chaos.Observer. What the daemon's own end cut off is no error.
func (m *Metrics) Engine(operation string, took time.Duration, err error) {
	m.engineRequest.WithLabelValues(operation).Observe(took.Seconds())
	failed := m.engineErrors.WithLabelValues(operation) // there from the first time on
	if err != nil && !errors.Is(err, context.Canceled) {
		failed.Inc()
	}
}

// LedgerAppend is told of every append to the ledger, as ledger.Options.ObserveAppend.
func (m *Metrics) LedgerAppend(d time.Duration, err error) {
	if err != nil {
		m.ledgerErrors.Inc()
		return
	}
	m.ledgerAppend.Observe(d.Seconds())
}

// LedgerSize sets the size of the ledger's files in bytes.
func (m *Metrics) LedgerSize(bytes int64) { m.ledgerSize.Set(float64(bytes)) }

// SelfTested is told of every self-test, as soak.Loop.SelfTested: when it was, and what was wrong, or nil.
func (m *Metrics) SelfTested(at memory.Instant, wrong error) {
	if wrong != nil {
		m.selfTestFailures.Inc()
		return
	}
	m.selfTest.Set(float64(at.Wall) / float64(time.Second))
}

// Browser sets the browser's resident memory in bytes, and brings the counts up to how often it was restarted in this
// daemon's life, by reason.
func (m *Metrics) Browser(total map[string]int, memory int64) {
	m.browserMemory.Set(float64(memory))
	m.mu.Lock()
	defer m.mu.Unlock()
	for reason, n := range total {
		m.browserRestarts.WithLabelValues(reason).Add(float64(n - m.restarts[reason]))
		m.restarts[reason] = n
	}
}

// NextFault sets the earliest time of the next fault; a zero time: none is planned.
func (m *Metrics) NextFault(t time.Time) {
	if t.IsZero() {
		m.nextFault.Set(0)
		return
	}
	m.nextFault.Set(float64(t.UnixNano()) / 1e9)
}

// Paused says why faults are held back; no reason: they are not.
func (m *Metrics) Paused(reasons ...chaos.Reason) {
	for _, r := range pauses {
		on := 0.0
		if slices.Contains(reasons, r) {
			on = 1
		}
		m.paused.WithLabelValues(string(r)).Set(on)
	}
}
