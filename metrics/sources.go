package metrics

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"offstage/tasks"
)

// ScrapeTimeout bounds what one scrape asks of Redis.
const ScrapeTimeout = 2 * time.Second

// Sources is what a scrape asks. Each gets a context that ends after [ScrapeTimeout] and may be called concurrently.
// An error leaves the source's series out and turns offstage_redis_up to 0. A nil source is not asked.
type Sources struct {
	// Ping reports whether Redis answers.
	Ping func(context.Context) error
	// Counts reports the tasks of every queue by status.
	Counts func(context.Context) ([]QueueCount, error)
	// Stats reports asynq's own view of every queue.
	Stats func(context.Context) ([]QueueStat, error)
}

// QueueCount is one queue's tasks by status. A status that is missing counts as 0.
type QueueCount struct {
	Queue  string
	Counts map[tasks.Status]int64
}

// QueueStat is asynq's view of one queue.
type QueueStat struct {
	Queue            string
	Size             int // pending, active, scheduled, retry, aggregating and archived together
	Groups           int
	MemoryUsageBytes int64   // sampled by Redis
	LatencySeconds   float64 // age of the oldest pending task
	Pending          int
	Active           int
	Scheduled        int
	Retry            int
	Archived         int
	Completed        int
	Aggregating      int
	ProcessedTotal   int
	FailedTotal      int
	Paused           bool
}

// Watch adds the series that are asked for at each scrape. Call it once.
func (m *Metrics) Watch(s Sources) error {
	return m.registry.Register(newScrape(s))
}

// scrape is the collector of everything in Sources.
type scrape struct {
	sources Sources

	up, tasks, running                                     *prometheus.Desc
	states, size, latency, memory, processed, fails, pause *prometheus.Desc
}

func newScrape(s Sources) *scrape {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &scrape{
		sources: s,
		up:      desc("offstage_redis_up", "1 when Redis answered everything this scrape asked, else 0."),
		tasks:   desc("offstage_tasks", "Tasks on record.", "queue", "status"),
		running: desc("offstage_tasks_running", "Tasks that a worker holds.", "queue"),

		// asynqmon's metrics page queries these names.
		states:    desc("asynq_tasks_enqueued_total", "Tasks in asynq's queues (a gauge).", "queue", "state"),
		size:      desc("asynq_queue_size", "Tasks in an asynq queue, completed ones left out.", "queue"),
		latency:   desc("asynq_queue_latency_seconds", "Age of the oldest pending task.", "queue"),
		memory:    desc("asynq_queue_memory_usage_approx_bytes", "Memory of a queue in Redis, by sampling.", "queue"),
		processed: desc("asynq_tasks_processed_total", "Attempts that asynq saw end.", "queue"),
		fails:     desc("asynq_tasks_failed_total", "Attempts that asynq saw fail.", "queue"),
		pause:     desc("asynq_queue_paused_total", "1 while the queue is paused (a gauge).", "queue"),
	}
}

// Describe implements prometheus.Collector.
func (s *scrape) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		s.up, s.tasks, s.running, s.states, s.size, s.latency, s.memory, s.processed, s.fails, s.pause,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. The sources are asked side by side, so that a slow one does not use up
// the time of the others.
func (s *scrape) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), ScrapeTimeout)
	defer cancel()
	var (
		wg                         sync.WaitGroup
		pingErr, countErr, statErr error
		counts                     []QueueCount
		stats                      []QueueStat
	)
	if s.sources.Ping != nil {
		wg.Go(func() { pingErr = s.sources.Ping(ctx) })
	}
	if s.sources.Counts != nil {
		wg.Go(func() { counts, countErr = s.sources.Counts(ctx) })
	}
	if s.sources.Stats != nil {
		wg.Go(func() { stats, statErr = s.sources.Stats(ctx) })
	}
	wg.Wait()
	ch <- gaugeOf(s.up, bit(errors.Join(pingErr, countErr, statErr) == nil))
	if countErr == nil {
		s.collectCounts(ch, counts)
	}
	if statErr == nil {
		s.collectStats(ch, stats)
	}
}

func (s *scrape) collectCounts(ch chan<- prometheus.Metric, counts []QueueCount) {
	for _, c := range counts {
		queue := utf8Label(c.Queue)
		for _, status := range tasks.Statuses() {
			ch <- gaugeOf(s.tasks, float64(c.Counts[status]), queue, string(status))
		}
		ch <- gaugeOf(s.running, float64(c.Counts[tasks.Running]), queue)
	}
}

func (s *scrape) collectStats(ch chan<- prometheus.Metric, stats []QueueStat) {
	for _, q := range stats {
		queue := utf8Label(q.Queue)
		for _, st := range []struct {
			state string
			n     int
		}{
			{"active", q.Active}, {"pending", q.Pending}, {"scheduled", q.Scheduled}, {"retry", q.Retry},
			{"archived", q.Archived}, {"completed", q.Completed}, {"aggregating", q.Aggregating},
		} {
			ch <- gaugeOf(s.states, float64(st.n), queue, st.state)
		}
		ch <- gaugeOf(s.size, float64(q.Size), queue)
		ch <- gaugeOf(s.latency, q.LatencySeconds, queue)
		ch <- gaugeOf(s.memory, float64(q.MemoryUsageBytes), queue)
		ch <- gaugeOf(s.pause, bit(q.Paused), queue)
		ch <- prometheus.MustNewConstMetric(s.processed, prometheus.CounterValue, float64(q.ProcessedTotal), queue)
		ch <- prometheus.MustNewConstMetric(s.fails, prometheus.CounterValue, float64(q.FailedTotal), queue)
	}
}

func gaugeOf(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
