package config

import (
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// parseTokens reads auth.tokens: a list of maps, or the same as JSON in one text.
func parseTokens(v any) ([]Token, error) {
	var list []any
	switch v := v.(type) {
	case string:
		var err error
		if list, err = decodeList(v); err != nil {
			return nil, err
		}
	case []any:
		list = v
	default:
		return nil, &valueError{"is " + kind(v) + ", not a list", "write a list of tokens"}
	}
	var tokens []Token
	var bad partsError
	for i, item := range list {
		t, faults := parseToken(item)
		for _, f := range faults {
			f.Key = fmt.Sprintf("[%d]%s", i, f.Key)
		}
		bad = append(bad, faults...)
		tokens = append(tokens, t)
	}
	if len(bad) > 0 {
		return nil, bad
	}
	return tokens, nil
}

func parseToken(v any) (Token, partsError) {
	const hint = "a token has name, sha256, scopes, owners and maybe expires_at"
	fields, ok := v.(map[string]any)
	if !ok {
		return Token{}, partsError{{Reason: "is " + kind(v), Hint: hint}}
	}
	var t Token
	var bad partsError
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		var err error
		switch value := fields[name]; name {
		case "name":
			t.Name, err = parseText(value)
		case "sha256":
			t.SHA256, err = parseText(value)
			t.SHA256 = strings.ToLower(t.SHA256)
		case "scopes":
			t.Scopes, err = parseList(value)
		case "owners":
			t.Owners, err = parseList(value)
		case "expires_at":
			t.ExpiresAt, err = parseExpiry(value)
		default:
			err = &valueError{"no such field", hint}
		}
		if err != nil {
			bad = append(bad, faultsOf("."+name, "", err)...)
		}
	}
	return t, bad
}

// parseExpiry takes an empty value for "never".
func parseExpiry(v any) (time.Time, error) {
	if v == nil || v == "" {
		return time.Time{}, nil
	}
	return parseTime(v)
}

func (v *validation) tokens(tokens []Token) {
	names := map[string]bool{}
	for i, t := range tokens {
		key := fmt.Sprintf("auth.tokens[%d]", i)
		if t.Name == "" || names[t.Name] {
			v.fail(key+".name", quote(t.Name)+" is empty or used twice", "give each token a name of its own")
		}
		names[t.Name] = true
		v.token(key, t)
	}
}

func (v *validation) token(key string, t Token) {
	if b, err := hex.DecodeString(t.SHA256); err != nil || len(b) != 32 || t.SHA256 != strings.ToLower(t.SHA256) {
		v.fail(key+".sha256", "is not a SHA-256 in lower-case hex", "make it with: printf %s \"$TOKEN\" | sha256sum")
	}
	if len(t.Scopes) == 0 {
		v.fail(key+".scopes", "is empty", "use some of "+strings.Join(Scopes(), ", "))
	}
	for _, scope := range t.Scopes {
		if !slices.Contains(Scopes(), scope) {
			v.fail(key+".scopes", quote(scope)+" is not a scope", "use some of "+strings.Join(Scopes(), ", "))
		}
	}
	if len(t.Owners) == 0 {
		v.fail(key+".owners", "is empty", `name owners, or "*" for all`)
	}
	for _, pattern := range t.Owners {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			v.fail(key+".owners", quote(pattern)+" is not a pattern", `use *, ? and [a-z], like "team-*"`)
		}
	}
}
