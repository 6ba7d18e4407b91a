package bridge

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"offstage/tasks"
)

// operator is who changed a task through one of asynq's tools.
const operator = "asynq"

// operate does to record and queue what an operator asked asynq's inspector to do to a task, and answers with the
// inspector's own codes. Errors: tasks.ErrNotFound when there is no record, *OpError.
func (s *Store) operate(ctx context.Context, c call) (any, error) {
	return s.operateOn(ctx, c.script, address{queueOf(c.keys[0]), c.arg(0)}, "")
}

// operateOn does it to one task; when only is not empty, to one of that status, and answers 0 otherwise.
func (s *Store) operateOn(ctx context.Context, script asynqScript, at address, only tasks.Status) (int64, error) {
	id := at.public()
	if known, ok := locate(id); !ok || known != at { // in a queue whose name cannot be one of ours
		return 0, tasks.ErrNotFound
	}
	peek, err := s.Peek(ctx, id)
	if err != nil {
		return 0, err
	}
	switch {
	case only != "" && peek.Status != only:
		return 0, nil
	case script == asynqRunTask && peek.Status == tasks.Running:
		return -1, nil
	case script == asynqRunTask && peek.Status == tasks.Pending:
		return -2, nil
	case script == asynqRunTask:
		return 1, s.Rerun(ctx, id, "", true)
	case script == asynqArchiveTask && peek.Status == tasks.Running:
		return -2, nil
	case script == asynqArchiveTask && peek.Status.Terminal():
		return -1, nil
	case script == asynqDeleteTask && peek.Status == tasks.Running:
		return -1, nil
	case script == asynqDeleteTask && peek.Status.Terminal():
		return 1, s.Delete(ctx, id, "")
	}
	// A task that waits is cancelled; its record says so until its retention ends.
	_, _, err = s.Cancel(ctx, id, "", operator, "")
	return 1, err
}

// operateBatch is how many tasks of a bulk operation are listed at a time.
const operateBatch = 100

// operateAll does an inspector's bulk operation task by task, for asynq's own scripts hold Redis for the whole set and
// lose what is beyond the archive's size. It stops when a round changes nothing.
func (s *Store) operateAll(ctx context.Context, c call) (int64, error) {
	single := asynqRunTask
	switch c.script {
	case asynqArchiveAll, asynqArchivePending:
		single = asynqArchiveTask
	case asynqDeleteAll, asynqDeletePending:
		single = asynqDeleteTask
	}
	queue, done, only := queueOf(c.keys[0]), int64(0), tasks.Status("")
	if strings.HasSuffix(c.keys[0], ":pending") {
		only = tasks.Pending // the list has entries of cancelled tasks, too
	}
	for start := int64(0); ; {
		ids, err := s.members(ctx, c.keys[0], start)
		if err != nil || len(ids) == 0 {
			return done, err
		}
		for _, id := range ids {
			n, err := s.operateOn(ctx, single, address{queue, id}, only)
			switch {
			case err == nil && n == 1 && only == "":
				done++
			case err == nil && n == 1: // its entry stays in the list
				done++
				start++
			case err == nil || errors.Is(err, tasks.ErrNotFound) || errors.Is(err, tasks.ErrNotTerminated) || errors.Is(err, tasks.ErrTerminated):
				start++ // somebody else was faster, or it is a plain asynq task that no worker has taken yet
			default:
				return done, err
			}
		}
	}
}

// members lists a batch of ids of one of asynq's lists or sets.
func (s *Store) members(ctx context.Context, key string, start int64) ([]string, error) {
	var cmd *redis.StringSliceCmd
	if strings.HasSuffix(key, ":pending") {
		cmd = s.rdb.LRange(ctx, key, start, start+operateBatch-1)
	} else {
		cmd = s.rdb.ZRange(ctx, key, start, start+operateBatch-1)
	}
	ids, err := cmd.Result()
	if err != nil {
		return nil, readError("list", err)
	}
	return ids, nil
}

// cancelActive cancels a task that one of asynq's tools named by its bare id, wherever it is. Errors:
// tasks.ErrNotFound, *OpError.
func (s *Store) cancelActive(ctx context.Context, id string) error {
	queues, err := s.Queues(ctx)
	if err != nil {
		return err
	}
	for _, q := range queues {
		_, _, err := s.Cancel(ctx, address{q, id}.public(), "", operator, "")
		if !errors.Is(err, tasks.ErrNotFound) {
			return err
		}
	}
	return tasks.ErrNotFound
}
