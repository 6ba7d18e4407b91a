// Package metrics counts what offstage does and shows it to Prometheus.
//
// [Metrics] takes the reports of the queue and the worker (it has the methods of their observer interfaces) and holds
// the offstage_* counters and histograms. [Metrics.Watch] adds what can only be asked for: the gauges of every queue
// and the asynq_* series that asynqmon's metrics page queries. Labels are bounded: they never carry an id, an owner or
// a path, a task type that no worker knows counts as "other", and so does a queue beyond the first [MaxQueues].
package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// MaxQueues is how many queue names get series of their own in the counters of one process. Whoever may enqueue may
// name new queues, and a counter is never forgotten.
const MaxQueues = 256

// Metrics is offstage's instrumentation. Its methods are safe for concurrent use. Make one with [New].
type Metrics struct {
	registry *prometheus.Registry
	types    map[string]bool
	queues   queueNames

	enqueued       *prometheus.CounterVec
	finished       *prometheus.CounterVec
	attempts       *prometheus.CounterVec
	duration       *prometheus.HistogramVec
	wait           *prometheus.HistogramVec
	commitFailures *prometheus.CounterVec
	commitPending  prometheus.Gauge
	spoolRecords   prometheus.GaugeFunc
	spooled        func() int
	staleWrites    *prometheus.CounterVec
	repairs        *prometheus.CounterVec
	interruptions  *prometheus.CounterVec
	cancelRequests *prometheus.CounterVec
	cancelLatency  prometheus.Histogram
	handlersStuck  prometheus.Gauge
	unknownScripts prometheus.Counter
	buildInfo      *prometheus.GaugeVec
}

// Options say what is measured. The zero value is usable.
type Options struct {
	// Registry gets everything; nil means one of Metrics' own.
	Registry *prometheus.Registry
	// Version is what offstage_build_info says.
	Version string
	// Types are the task types that workers have registered; every other one counts as "other".
	Types []string
	// Spooled says how many outcomes are kept on disk; nil means none ever are. It may be called at any time.
	Spooled func() int
}

// New registers everything, Go and process collectors included, and returns it. It fails when the registry holds one
// of the names already.
func New(o Options) (*Metrics, error) {
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	if o.Spooled == nil {
		o.Spooled = func() int { return 0 }
	}
	m := &Metrics{registry: o.Registry, spooled: o.Spooled, types: map[string]bool{}, queues: newQueueNames(MaxQueues)}
	for _, t := range o.Types {
		m.types[t] = true
	}
	m.makeTaskSeries()
	m.makeFaultSeries()
	if err := m.register(); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	m.startAtZero()
	m.buildInfo.WithLabelValues(o.Version, runtime.Version()).Set(1)
	return m, nil
}

// Handler serves the registry in Prometheus' formats. A collector that fails costs its own series only.
func (m *Metrics) Handler() http.Handler {
	const atOnce = 4 // each scrape asks Redis about every queue
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: atOnce,
	})
}

func (m *Metrics) makeTaskSeries() {
	m.enqueued = counters("tasks_enqueued_total", "Tasks accepted.", "queue", "type")
	m.finished = counters("tasks_finished_total",
		"Tasks that reached a terminal status; kind is set when it is failed.", "queue", "type", "status", "kind")
	m.attempts = counters("task_attempts_total",
		"Attempts that ended: completed, failed, cancelled, retry, released or stale.", "queue", "type", "outcome")
	m.duration = histograms("task_duration_seconds", "How long a finished task's last attempt ran.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600}, "queue", "type")
	m.wait = histograms("task_wait_seconds", "How long a task waited from being eligible to its start.",
		[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 15, 60, 300, 1800}, "queue")
	m.cancelRequests = counters("cancel_requests_total", "Requests to cancel, by what they covered.", "scope")
	m.cancelLatency = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Name: "cancel_latency_seconds",
		Help:    "How long a cancelled task took from the request to its end.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2, 3, 5, 10, 30, 60},
	})
	m.buildInfo = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Always 1; the labels say what runs.",
	}, []string{"version", "goversion"})
}

func (m *Metrics) makeFaultSeries() {
	m.commitFailures = counters("state_commit_failures_total",
		"Writes of a task's state that failed; each is retried.", "operation", "reason")
	m.commitPending = gauge("commit_pending", "Ends of attempts that are not in Redis yet.")
	m.spoolRecords = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "spool_records", Help: "Outcomes kept on disk until Redis takes them.",
	}, func() float64 { return float64(m.spooled()) })
	m.staleWrites = counters("stale_writes_total", "Writes of outdated attempts that were refused.", "operation")
	m.repairs = counters("repairs_total", "Records brought back in line with asynq.", "kind")
	m.interruptions = counters("interruptions_total", "Attempts cut short without spending a retry.", "cause")
	m.handlersStuck = gauge("handlers_stuck", "Handlers that ignored the end of their context and still hold a slot.")
	m.unknownScripts = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Name: "unknown_scripts_total",
		Help: "Scripts of asynq that offstage does not know and let through.",
	})
}

func (m *Metrics) register() error {
	var errs []error
	for _, c := range []prometheus.Collector{
		m.enqueued, m.finished, m.attempts, m.duration, m.wait, m.commitFailures, m.commitPending, m.spoolRecords,
		m.staleWrites, m.repairs, m.interruptions, m.cancelRequests, m.cancelLatency, m.handlersStuck,
		m.unknownScripts, m.buildInfo,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		errs = append(errs, m.registry.Register(c))
	}
	return errors.Join(errs...)
}

// startAtZero makes the series that an alert may ask for before anything went wrong: rate() of a series that springs
// up at 1 is 0.
func (m *Metrics) startAtZero() {
	for _, op := range Operations() {
		for _, reason := range Reasons() {
			m.commitFailures.WithLabelValues(op, reason)
		}
		m.staleWrites.WithLabelValues(op)
	}
	for _, cause := range []string{"crash", "drain", "lease_lost"} {
		m.interruptions.WithLabelValues(cause)
	}
	for _, scope := range []string{"task", "tree", "owner"} {
		m.cancelRequests.WithLabelValues(scope)
	}
}

const namespace = "offstage"

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	opts := prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}
	return prometheus.NewHistogramVec(opts, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
}
