package main

import (
	"context"

	"offstage/queue"
)

// theQueue gives the embedded field another name than that of the method Queue.
type theQueue = queue.Queue

// service is the queue as the API shows it: its health is the whole daemon's.
type service struct {
	*theQueue
	daemon *daemon
}

// Health adds what the worker has to say.
func (s service) Health(ctx context.Context) (queue.Health, error) {
	h, err := s.theQueue.Health(ctx)
	if w := s.daemon.worker.Load(); w != nil && err == nil {
		problems, fault := w.Health()
		if fault != nil {
			h.Ready = false
			problems = append(problems, fault.Error())
		}
		h.Problems = append(h.Problems, problems...)
	}
	return h, err
}

// spooled counts the outcomes on disk.
func (d *daemon) spooled() int {
	if s := d.spool.Load(); s != nil {
		return s.Len()
	}
	return 0
}
