package sandbox

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// caller is who asks, and what is known about it from path and key alone.
type caller struct {
	call    Call
	key     *key
	refusal string     // why 403; empty: may go on
	target  *insertion // contact requests only; nil: no such reference
	known   bool       // the model knows the reference
}

// route reads a path as received. Each segment is decoded once, and only after
// the path was split, because a reference may hold a slash itself.
func route(path string) (Call, bool) {
	if rest, ok := strings.CutPrefix(path, "/insertion-funnel/integration/"); ok {
		escaped, ok := strings.CutSuffix(rest, "/insertions")
		agencyID, valid := segment(escaped)
		return Call{Operation: OperationInsertions, AgencyID: agencyID}, ok && valid
	}
	if rest, ok := strings.CutPrefix(path, "/ubm-contact-request/property/"); ok {
		reference, valid := segment(rest)
		return Call{Operation: OperationContactRequests, Reference: reference}, valid
	}
	return Call{}, false
}

func segment(escaped string) (string, bool) {
	if escaped == "" || strings.Contains(escaped, "/") {
		return "", false
	}
	s, err := url.PathUnescape(escaped)
	return s, err == nil
}

// identify finds out who asks and whether it may.
func (m *Model) identify(call Call, authorization []string) caller {
	m.mu.Lock()
	defer m.mu.Unlock()
	call.At = m.options.Now()
	c := caller{call: call}
	c.key, c.refusal = m.authenticate(authorization)
	if c.key != nil {
		c.call.Key = c.key.label
	}
	if call.Operation == OperationInsertions {
		m.authoriseAgency(&c)
	} else {
		m.authoriseReference(&c)
	}
	return c
}

// authenticate reads the Authorization header. A deactivated key is returned
// with its refusal, so that its use can be counted. The lock is held.
func (m *Model) authenticate(header []string) (*key, string) {
	if len(header) == 0 || header[0] == "" {
		return nil, RefusalNoKey
	}
	scheme, value, found := strings.Cut(header[0], " ")
	switch {
	case scheme != "ApiKey":
		return nil, RefusalScheme
	case !found || value == "" || strings.ContainsAny(value, " \t,") || len(header) > 1:
		return nil, RefusalMalformed
	}
	k := m.keys[value]
	if k == nil {
		return nil, RefusalUnknownKey
	}
	if !k.active {
		return k, RefusalDeactivatedKey
	}
	return k, ""
}

func (m *Model) authoriseAgency(c *caller) {
	id := c.call.AgencyID
	if m.agencies[id] == nil {
		c.call.AgencyID = ""
		c.refuse(RefusalUnknownAgency)
		return
	}
	if c.refusal == "" && !c.key.agencies[id] {
		c.refuse(RefusalNotLinked)
	}
}

// authoriseReference finds the insertion that the key may see; the same
// reference may belong to several agencies, then the first by id is meant.
func (m *Model) authoriseReference(c *caller) {
	owners := m.references[c.call.Reference]
	if len(owners) == 0 {
		if m.options.UnknownStatus == http.StatusForbidden {
			c.refuse(RefusalUnknownProperty)
		}
		return
	}
	c.known = true
	c.target = owners[0]
	linked := slices.IndexFunc(owners, func(i *insertion) bool { return c.key != nil && c.key.agencies[i.agencyID] })
	if linked >= 0 {
		c.target = owners[linked]
	}
	c.call.AgencyID = c.target.agencyID
	switch {
	case linked < 0:
		c.refuse(RefusalNotLinked)
	case !c.target.listed && m.options.WithdrawnStatus == http.StatusForbidden:
		c.refuse(RefusalWithdrawn)
	}
}

// refuse keeps the first reason.
func (c *caller) refuse(reason string) {
	if c.refusal == "" {
		c.refusal = reason
	}
}
