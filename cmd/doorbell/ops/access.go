package ops

import "context"

// Access is what a request over HTTP may do, beyond reading what holds no person and no secret. The zero value may do
// nothing more.
type Access struct {
	// Act: it may use the verbs that change something. It came with the token, or with a session that was begun with it, and
	// from our own pages.
	Act bool
}

type accessKey struct{}

// WithAccess returns a context of a request that may do this much.
func WithAccess(ctx context.Context, a Access) context.Context {
	return context.WithValue(ctx, accessKey{}, a)
}

// AccessOf says what a request may do.
func AccessOf(ctx context.Context) Access {
	a, _ := ctx.Value(accessKey{}).(Access)
	return a
}
