// Package embedded is a Redis-compatible server inside this process, for trying offstage out on a machine that has no
// Redis and for tests that do not need a real one. Nothing survives the process, and nothing is fast.
//
// It is miniredis with two additions: its clock runs (keys expire by themselves), and it asks for a password that
// only this process knows. What its Lua lacks compared to Redis is held by TestServer_Scripts; a script that offstage
// runs must keep to what both of them do.
package embedded
