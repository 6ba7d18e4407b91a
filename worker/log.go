package worker

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// asynqLogger gives asynq's messages to slog, one level down: what matters to an operator we say ourselves.
type asynqLogger struct{ log *slog.Logger }

func (l *asynqLogger) Debug(args ...any) { l.log.Debug("Asynq says", "text", fmt.Sprint(args...)) }
func (l *asynqLogger) Info(args ...any)  { l.log.Debug("Asynq says", "text", fmt.Sprint(args...)) }
func (l *asynqLogger) Warn(args ...any)  { l.log.Debug("Asynq says", "text", fmt.Sprint(args...)) }
func (l *asynqLogger) Error(args ...any) { l.log.Debug("Asynq says", "text", fmt.Sprint(args...)) }
func (l *asynqLogger) Fatal(args ...any) { l.log.Error("Asynq says", "text", fmt.Sprint(args...)) }

// repeatEvery is how often a trouble that lasts is logged again.
const repeatEvery = 30 * time.Second

// quiet logs a trouble when it begins, now and then while it lasts, and when it is over.
type quiet struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func newQuiet() *quiet { return &quiet{last: map[string]time.Time{}} }

func (q *quiet) note(log *slog.Logger, what string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.last[what]) < repeatEvery {
		return
	}
	q.last[what] = time.Now()
	log.Error("Redis does not serve", "what", what, "err", err)
}

func (q *quiet) clear(log *slog.Logger, what string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.last) == 0 {
		return
	}
	clear(q.last)
	log.Info("Redis serves again", "what", what)
}
