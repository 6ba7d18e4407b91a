package bridge

import "context"

// Listen calls hint with the public id of each task that somebody asks to cancel while it runs, until ctx ends. It
// also turns requests of asynq's tools into cancellations of ours. Messages may be lost: heartbeats tell the same,
// later. Errors of the subscription are go-redis' to retry.
func (s *Store) Listen(ctx context.Context, hint func(id string)) {
	sub := s.rdb.Subscribe(ctx, CancelHints, cancelChannel)
	defer func() { _ = sub.Close() }()
	messages := sub.Channel()
	for {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-messages:
			switch {
			case !ok:
				return
			case m.Channel == CancelHints:
				hint(m.Payload)
			default:
				_ = s.cancelActive(ctx, m.Payload) // asynq promises its tools no answer
			}
		}
	}
}
