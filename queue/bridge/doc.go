// Package bridge is the seam between offstage's records and asynq's queues. Every change of a task's state is one Lua
// script that writes both, on one hash slot, so they never disagree (the scripts are in scripts/, each with its
// contract in its head).
//
// asynq itself is unmodified. It is handed a redis.UniversalClient that recognises asynq's scripts by their SHA-1:
// [Client] for producers, inspectors and asynqmon, [Server] for an asynq.Server. Scripts that move a task are
// replaced by ours, the others pass. A script that is not known passes too, and is reported, for then asynq may have
// changed under us; TestAsynqScripts pins the known ones.
//
// [Store] has one method for each script of ours.
package bridge
