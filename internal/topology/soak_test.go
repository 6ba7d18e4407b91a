//go:build soak

package topology_test

import "testing"

// TestSoakSentinel is the long form of TestSentinel_WaitReplicas.
func TestSoakSentinel(t *testing.T) {
	cases := map[string]failoverConfig{
		"OneOfOne": {times: 20, replicas: 1, wait: 1, hard: mixed},
		"TwoOfTwo": {times: 20, replicas: 2, wait: 2, hard: mixed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := failovers(t, c); got.missing != 0 {
				t.Errorf("%d accepted tasks are missing", got.missing)
			}
		})
	}
}

// TestSoakSentinel_TooFewReplicas is the long form of that.
func TestSoakSentinel_TooFewReplicas(t *testing.T) {
	cases := map[string]failoverConfig{
		"None":     {times: 20, replicas: 2, hard: mixed},
		"OneOfTwo": {times: 20, replicas: 2, wait: 1, hard: killed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { failovers(t, c) })
	}
}
