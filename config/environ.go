package config

import (
	"slices"
	"strings"
)

const envPrefix = "OFFSTAGE_"

// fromEnviron takes the settings out of an environment of NAME=value pairs. What is set to nothing is unset.
func fromEnviron(all []setting, environ []string) layer {
	l := layer{}
	names := envKeys(all)
	redisURL := ""
	for _, pair := range slices.Sorted(slices.Values(environ)) {
		name, text, _ := strings.Cut(pair, "=")
		if name == "REDIS_URL" {
			redisURL = text
		}
		if text == "" || !strings.HasPrefix(name, envPrefix) || belongsToOthers(name, text) {
			continue
		}
		key, known := names[name]
		if !known {
			key, known = envSecret(name)
		}
		if !known {
			l.faults = append(l.faults, unknownVariable(names, name))
			continue
		}
		l.put(all, key, text, "env "+name)
	}
	if _, ours := l.values["redis.url"]; !ours && redisURL != "" {
		l.put(all, "redis.url", redisURL, "env REDIS_URL")
	}
	return l
}

// envKeys maps the variables, those of twins included, to keys.
func envKeys(all []setting) map[string]string {
	names := map[string]string{}
	for _, key := range keys(all) {
		names[envName(key)] = key
	}
	return names
}

// envSecret reads the variable of a webhook secret, whose name stands at its end.
func envSecret(name string) (string, bool) {
	secret, ok := strings.CutPrefix(name, envName(secretsKey)+"_")
	if !ok || secret == "" || secret == "FILE" {
		return "", false
	}
	return secretsKey + "." + strings.ToLower(secret), true
}

// belongsToOthers tells the variables that are no settings: the command line's own, and those that Kubernetes puts
// into every pod beside a Service whose name starts with "offstage" (OFFSTAGE_PORT=tcp://10.0.0.7:8484 and others).
func belongsToOthers(name, text string) bool {
	switch name {
	case "OFFSTAGE_SERVER", "OFFSTAGE_OWNER", "OFFSTAGE_TOKEN", "OFFSTAGE_TOKEN_FILE", "OFFSTAGE_CONFIG":
		return true
	}
	if strings.HasSuffix(name, "_SERVICE_HOST") || strings.HasSuffix(name, "_SERVICE_PORT") || strings.Contains(name, "_SERVICE_PORT_") {
		return true
	}
	_, port, ok := strings.Cut(name, "_PORT")
	if !ok {
		return false
	}
	if port == "" {
		return strings.Contains(text, "://")
	}
	parts := strings.Split(strings.TrimPrefix(port, "_"), "_")
	return len(parts) >= 2 && strings.Trim(parts[0], "0123456789") == "" && slices.Contains([]string{"TCP", "UDP", "SCTP"}, parts[1])
}

func unknownVariable(names map[string]string, name string) *Fault {
	hint := "unset it; `offstage config print` shows all settings"
	known := make([]string, 0, len(names))
	for n := range names {
		known = append(known, n)
	}
	slices.Sort(known)
	if name == envName(secretsKey) || name == envName(secretsKey)+"_FILE" {
		hint = "set " + envName(secretsKey) + "_NAME (or _NAME_FILE) for each secret"
	} else if near := nearest(name, known); near != "" {
		hint = "did you mean " + near + "?"
	} else if base, ok := names[strings.TrimSuffix(name, "_FILE")]; ok {
		hint = "only secrets can be read from a file of their own; set " + envName(base)
	}
	return &Fault{Key: name, Source: "env " + name, Reason: "is not a setting", Hint: hint}
}
