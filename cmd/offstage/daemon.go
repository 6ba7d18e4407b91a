package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"offstage/api"
	"offstage/config"
	"offstage/internal/embedded"
	"offstage/metrics"
	"offstage/queue"
	"offstage/worker"
	"offstage/worker/spool"
)

// daemon wires the packages together. Each part fills in what the parts behind it need.
type daemon struct {
	app   *app
	cfg   config.Config
	log   *slog.Logger
	force <-chan struct{}

	queue      *queue.Queue
	metrics    *metrics.Metrics
	api        *api.Server
	addr       string
	durability string
	caveat     sync.Once
	worker     atomic.Pointer[worker.Worker]
	spool      atomic.Pointer[spool.Spool]
}

// openTimeout bounds the first contact with Redis.
const openTimeout = 10 * time.Second

// runQueue connects to Redis, or starts one in the process, and closes the connection at the end.
func (d *daemon) runQueue(ctx context.Context, ready func()) error {
	url := d.cfg.Redis.URL.Reveal()
	if d.cfg.Embedded() {
		server, err := embedded.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		url = server.URL()
	}
	var err error
	d.metrics, err = metrics.New(metrics.Options{Version: buildVersion(), Types: []string{typeExec, typeHTTP}, Spooled: d.spooled})
	if err != nil {
		return err
	}
	opened, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	d.queue, err = queue.Open(opened, url, queue.Options{Limits: new(d.cfg.Limits()), Observer: d.metrics, Embedded: d.cfg.Embedded(),
		RequireDurability: queue.Durability(d.cfg.Redis.RequireDurability), WaitReplicas: d.cfg.Redis.WaitReplicas})
	if err != nil {
		return err
	}
	defer func() { _ = d.queue.Close() }()
	if err := d.metrics.Watch(sources(d.queue)); err != nil {
		return err
	}
	durability, err := d.queue.CheckDurability(opened)
	if err != nil {
		return err
	}
	d.durability = durabilityText(durability)
	ready()
	<-ctx.Done()
	return nil
}

// runHTTP serves API, metrics and dashboard. It goes on while the worker drains.
func (d *daemon) runHTTP(ctx context.Context, ready func()) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w (check listen)", d.cfg.Listen, err)
	}
	d.addr = ln.Addr().String()
	var dashboard http.Handler
	if d.cfg.Monitoring.Enabled {
		board := api.Monitoring(d.queue.AsynqConn(), d.cfg.Monitoring.ReadOnly, "")
		defer func() { _ = board.Close() }()
		dashboard = board
	}
	d.api, err = api.New(api.Config{
		Queue: service{d.queue, d}, Version: buildVersion(), Limits: d.cfg.Limits(), Logger: d.log, Metrics: d.metrics.Handler(),
		Monitoring: dashboard, Check: d.builtins().check, AnyHost: !loopback(d.cfg.Listen),
	})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	ready()
	return d.api.Serve(ctx, ln)
}

// loopback reports whether only this machine can reach an address.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// runWorker runs tasks; when it is told to stop it drains.
func (d *daemon) runWorker(ctx context.Context, ready func()) error {
	b := d.builtins()
	cfg := worker.Config{
		Queues: d.cfg.Worker.Queues, StrictPriority: d.cfg.Worker.StrictPriority, Concurrency: d.cfg.Worker.Concurrency,
		PollInterval: d.cfg.Worker.PollInterval, CancelGrace: orNone(d.cfg.CancelGrace),
		Abort: d.force, DrainTimeout: orNone(d.cfg.DrainTimeout), MaxInterruptions: orNone(d.cfg.Task.MaxInterruptions),
		CommitHold: orNone(d.cfg.Commit.Hold), BeforeTakeover: b.sweep, Logger: d.log, Version: buildVersion(),
	}
	if !d.cfg.Embedded() { // whose Redis would not be there to take anything later
		s, err := spool.Open(filepath.Join(d.cfg.DataDir, "spool"), spool.Options{Logger: d.log})
		if err != nil {
			return fmt.Errorf("%w (check data_dir)", err)
		}
		defer func() { _ = s.Close() }()
		d.spool.Store(s)
		cfg.Spool = s
	}
	w, err := worker.New(d.queue, cfg)
	if err != nil {
		return err
	}
	d.worker.Store(w)
	b.register(w)
	b.sweep()
	undrain := context.AfterFunc(ctx, d.api.SetDraining)
	defer undrain()
	ready()
	return w.Run(ctx)
}

// orNone is a setting for which zero means none at all, for a package where zero means the default.
func orNone[T int | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

// sources is what the metrics ask of the queue at each scrape.
func sources(q *queue.Queue) metrics.Sources {
	return metrics.Sources{
		Ping: q.Ping,
		Counts: func(ctx context.Context) ([]metrics.QueueCount, error) {
			infos, err := q.Queues(ctx)
			counts := make([]metrics.QueueCount, len(infos))
			for i, info := range infos {
				counts[i] = metrics.QueueCount{Queue: info.Name, Counts: info.Counts}
			}
			return counts, err
		},
		Stats: func(ctx context.Context) ([]metrics.QueueStat, error) {
			infos, err := q.AsynqQueues(ctx)
			stats := make([]metrics.QueueStat, len(infos))
			for i, s := range infos {
				stats[i] = metrics.QueueStat{
					Queue: s.Queue, Size: s.Size, Groups: s.Groups, MemoryUsageBytes: s.MemoryUsage,
					LatencySeconds: s.Latency.Seconds(), Pending: s.Pending, Active: s.Active, Scheduled: s.Scheduled,
					Retry: s.Retry, Archived: s.Archived, Completed: s.Completed, Aggregating: s.Aggregating,
					ProcessedTotal: s.ProcessedTotal, FailedTotal: s.FailedTotal, Paused: s.Paused,
				}
			}
			return stats, err
		},
	}
}
