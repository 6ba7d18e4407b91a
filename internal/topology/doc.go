// Package topology gives a test a Redis Cluster or a Redis Sentinel set-up of its own: real redis-server processes on
// free ports, each checked to be the child that was started (see package redistest), killed at the test's end.
//
//	c := topology.StartCluster(t, topology.ClusterConfig{})
//	q, err := queue.Open(t.Context(), c.URL, queue.Options{})
//
// The tests here hold what offstage promises on these topologies: docs/guarantees.md names them. Each logs a line that
// begins with "measured:". "make soak" has the long forms.
package topology
