-- settings_of --
SELECT name, value FROM resource_settings WHERE resource = :resource ORDER BY name

-- put_setting --
INSERT INTO resource_settings (resource, name, value) VALUES (:resource, :name, :value)
ON CONFLICT (resource, name) DO UPDATE SET value = excluded.value
