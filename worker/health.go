package worker

import (
	"fmt"
	"time"
)

// emptiedFor is how long a worker says that Redis was emptied under it.
const emptiedFor = 10 * time.Minute

// Health tells what an operator should know: problems that do not keep the worker from working, and an error when it
// does not take tasks.
func (w *Worker) Health() (problems []string, err error) {
	if err := w.spoolState(); err != nil {
		return nil, fmt.Errorf("spool: %w (check data_dir)", err)
	}
	w.facts.Lock()
	defer w.facts.Unlock()
	if !w.emptied.IsZero() && time.Since(w.emptied) < emptiedFor {
		problems = append(problems, fmt.Sprintf("redis was emptied or replaced at %s: tasks accepted before are gone", w.emptied.UTC().Format(time.RFC3339)))
	}
	return problems, nil
}
