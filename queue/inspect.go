package queue

import (
	"context"
	"errors"

	"github.com/hibiken/asynq"
)

// AsynqInfo is asynq's own view of a queue, under the names of its tools.
type AsynqInfo = asynq.QueueInfo

// AsynqQueues reads asynq's view of all queues, for metrics that its dashboard asks for. A queue that asynq cannot
// read is left out, and its error joined to the others. ctx is looked at between queues: asynq takes none.
func (q *Queue) AsynqQueues(ctx context.Context) ([]*AsynqInfo, error) {
	names, err := q.store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	inspector := asynq.NewInspectorFromRedisClient(q.producer)
	var infos []*AsynqInfo
	var errs []error
	for _, name := range names {
		if ctx.Err() != nil {
			return infos, context.Cause(ctx)
		}
		info, err := inspector.GetQueueInfo(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		infos = append(infos, info)
	}
	return infos, errors.Join(errs...)
}
