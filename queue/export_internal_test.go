package queue

import "strings"

// LeastRights are the rules of a user that may do what doctor looks for and nothing else, and what the driver sends when
// it connects.
func LeastRights() []string {
	rules := []string{"~asynq:*", "~offstage:*", "&asynq:*", "&offstage:*", "+hello", "+client", "+select", "+unsubscribe",
		"+acl|whoami", "+acl|dryrun"}
	for _, r := range append(neededRights(), serverRights("")...) {
		cmd := strings.ToLower(r.cmd)
		if cmd == "config" {
			cmd += "|get"
		}
		rules = append(rules, "+"+cmd)
	}
	return rules
}
