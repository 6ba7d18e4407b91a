package bridge

import (
	"strings"

	"github.com/oklog/ulid/v2"
)

// QueuesKey is asynq's set of all queue names.
const QueuesKey = "asynq:queues"

// cancelChannel is where asynq's tools publish the ids of tasks to cancel.
const cancelChannel = "asynq:cancel"

func asynqPrefix(queue string) string { return "asynq:{" + queue + "}:" }
func ourPrefix(queue string) string   { return "offstage:{" + queue + "}:" }

// address says where a task lives: its queue and asynq's id for it, which names the record too.
type address struct{ queue, id string }

func (a address) record() string  { return ourPrefix(a.queue) + "t:" + a.id }
func (a address) message() string { return asynqPrefix(a.queue) + "t:" + a.id }
func (a address) events() string  { return ourPrefix(a.queue) + "e:" + a.id }
func (a address) output() string  { return ourPrefix(a.queue) + "o:" + a.id }

// foreign stands in front of an id of asynq that would be taken for one of ours without its queue.
const foreign = "~"

// public is the id that offstage shows. A task of ours has it in asynq too; one from a plain asynq producer gets its
// queue in front.
func (a address) public() string {
	if rest, ok := strings.CutPrefix(a.id, a.queue+"."); ok && isULID(rest) {
		return a.id
	}
	if isULID(a.id) || strings.HasPrefix(a.id, foreign) {
		return a.queue + "." + foreign + a.id
	}
	return a.queue + "." + a.id
}

// locate is the inverse of public. ok is false when id does not have the form of one.
func locate(id string) (a address, ok bool) {
	queue, rest, ok := strings.Cut(id, ".")
	if !ok || queue == "" || rest == "" || strings.ContainsAny(queue, "{}") {
		return address{}, false
	}
	if isULID(rest) {
		return address{queue, id}, true
	}
	if bare, ok := strings.CutPrefix(rest, foreign); ok {
		return address{queue, bare}, isULID(bare) || strings.HasPrefix(bare, foreign)
	}
	return address{queue, rest}, true
}

func isULID(s string) bool {
	if len(s) != ulid.EncodedSize || strings.ToLower(s) != s {
		return false
	}
	_, err := ulid.ParseStrict(strings.ToUpper(s))
	return err == nil
}

// queueOf takes the queue's name out of one of asynq's keys, "asynq:{name}:...".
func queueOf(key string) string {
	rest, _ := strings.CutPrefix(key, "asynq:{")
	queue, _, _ := strings.Cut(rest, "}")
	return queue
}
