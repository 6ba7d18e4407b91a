// Package redistest gives a test package a real redis-server of its own: on a free port, in a temporary directory,
// as a child that dies with the test binary. It checks that the server it talks to is that child, so a test can
// never write to, flush or kill a Redis that somebody else started.
//
// One server for a whole package, and a database of its own for each test:
//
//	var server *redistest.Server
//
//	func TestMain(m *testing.M) { redistest.Main(m, &server) }
//
//	func TestQueue_Cancel(t *testing.T) {
//		t.Parallel()
//		q, err := queue.Open(t.Context(), server.FreshDB(t))
//		...
//	}
//
// A test that stops, pauses or reconfigures its Redis starts one for itself with [Start]: pub/sub channels, scripts,
// ACLs and configuration are shared by all databases of a server.
package redistest
