package events

import "time"

// Row is an entry of the snapshot of an agency, as it goes into the stream beside the events where several doorbells share agencies.
// What a value means is the store's business.
type Row struct {
	Bucket, Key string
	Value       []byte // nil: there is no such entry any more
}

// Batch is what the stream has yet to take of an agency, or the first part of it, as of one moment.
type Batch struct {
	Events []Event // that were not published
	Rows   []Row   // of the snapshot; only where Events are all that wait
	All    bool    // nothing else waits
	Commit uint64  // of the store, the last that it shows
}

// Claim is the right of a doorbell to publish an agency, as the stream has confirmed it last.
type Claim struct {
	Epoch         uint64    `json:"epoch"`         // counts the owners of the agency
	Place         uint64    `json:"place"`         // of the head in the stream, which is the fence of the next batch
	StreamCreated time.Time `json:"streamCreated"` // another stream has none of it
}
