package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"offstage/queue"
	"offstage/tasks"
)

func (s *Server) listQueues(w http.ResponseWriter, r *http.Request) error {
	if err := query(r).err(); err != nil {
		return err
	}
	ctx, cancel := bounded(r)
	defer cancel()
	infos, err := s.queue.Queues(ctx)
	if err != nil {
		return err
	}
	if infos == nil {
		infos = []queue.Info{}
	}
	return writeJSON(w, http.StatusOK, map[string][]queue.Info{"queues": infos})
}

func (s *Server) getQueue(w http.ResponseWriter, r *http.Request) error {
	return s.onQueue(w, r, nil)
}

func (s *Server) pause(w http.ResponseWriter, r *http.Request) error {
	return s.onQueue(w, r, s.queue.Pause)
}

func (s *Server) resume(w http.ResponseWriter, r *http.Request) error {
	return s.onQueue(w, r, s.queue.Resume)
}

// onQueue does something to the queue of the path, if there is something to do, and answers with how it stands then.
func (s *Server) onQueue(w http.ResponseWriter, r *http.Request, do func(context.Context, string) error) error {
	if err := query(r).err(); err != nil {
		return err
	}
	name := r.PathValue("queue")
	if err := tasks.ValidateQueue(name); err != nil {
		return err
	}
	ctx, cancel := bounded(r)
	defer cancel()
	if do != nil {
		if err := optionalBody(w, r, &struct{}{}); err != nil {
			return err
		}
		if err := do(ctx, name); err != nil {
			return noQueue(name, err)
		}
	}
	info, err := s.queue.Queue(ctx, name)
	if err != nil {
		return noQueue(name, err)
	}
	return writeJSON(w, http.StatusOK, info)
}

// noQueue says of a queue what package tasks says of a task.
func noQueue(name string, err error) error {
	if errors.Is(err, tasks.ErrNotFound) {
		return errQueue.because(fmt.Sprintf("queue %q never had a task or a worker", name))
	}
	return err
}

func (s *Server) workers(w http.ResponseWriter, r *http.Request) error {
	if err := query(r).err(); err != nil {
		return err
	}
	ctx, cancel := bounded(r)
	defer cancel()
	workers, err := s.queue.Workers(ctx)
	if err != nil {
		return err
	}
	if workers == nil {
		workers = []queue.WorkerInfo{}
	}
	return writeJSON(w, http.StatusOK, map[string][]queue.WorkerInfo{"workers": workers})
}
