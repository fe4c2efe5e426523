namespace gradwire { void Stub() {} }
