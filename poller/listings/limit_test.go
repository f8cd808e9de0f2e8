package listings

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// vague is a transport that answers after some time, and of every early end says only that there was one.
type vague struct{ takes time.Duration }

func (v *vague) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(v.takes):
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func TestEachRequestHasAllOfItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &vague{}
		c := newClient(t, func(o *Options) { o.BaseURL, o.Transport, o.Timeout = "http://localhost", v, 10*time.Second })
		for _, takes := range []time.Duration{9, 9, 11, 9, 9, 12, 1} {
			v.takes = takes * time.Second
			began := time.Now()
			_, err := c.insertions(t)
			var broken *TransportError
			late := errors.As(err, &broken) && broken.Stage == StageTimeout
			if want := min(v.takes, 10*time.Second); late != (takes > 10) || time.Since(began) != want {
				t.Errorf("one that takes %v ends after %v: %v", v.takes, time.Since(began), err)
			}
			time.Sleep(time.Second)
		}
	})
}
