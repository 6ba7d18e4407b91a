package bridge

import (
	"context"
	"time"
)

// The bounds of a round of [Store.Reconcile].
const (
	reconcileBatch  = 200
	reconcileRounds = 25
)

// Reconcile looks through a part of a queue for records and queue entries that disagree, mends them and counts the
// repairs. It goes on at rank from and gives the rank for the next call, 0 to begin again. Only one worker looks after
// a queue within every.
func (s *Store) Reconcile(ctx context.Context, queue, worker string, every time.Duration, from int64) (next int64, repairs int, err error) {
	first := true
	for range reconcileRounds {
		v, err := s.run(ctx, OpRestore, reconcileScript, queue, []string{ourPrefix(queue) + "live"},
			worker, every.Milliseconds(), flag(first), from, reconcileBatch)
		if err != nil {
			return from, repairs, err
		}
		reply := list(v)
		if len(reply) != 2 { // another worker's turn
			return from, repairs, nil
		}
		for _, kind := range stringList(reply[1]) {
			s.watch.Repaired(kind)
			repairs++
		}
		if from = code(reply); from == 0 {
			return 0, repairs, nil
		}
		first = false
	}
	return from, repairs, nil
}
